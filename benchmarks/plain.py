"""Train the published clustering surrogate as the field does, as the reference for costs.

Images go one by one through torchvision's transforms in the processes of a DataLoader. Networks are
contiguous, eager and in float32. The surrogate's hinge is a Python loop over classes and clusters,
with a backward pass of its own. Loss and accuracy are read in every step. After an epoch the
training images pass through the encoder once more, for scikit-learn's K-means of every class.
"""

import math
from dataclasses import dataclass
from typing import Any

import torch
from PIL import Image
from sklearn.cluster import KMeans
from torch import Tensor
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms

from benchmarks.setting import CLASSES, CLUSTERS, NOISE_STD, Scale, split_model
from cemlib.data.prepared import Prepared, Split
from cemlib.models import SplitModel

GAMMA, THRESHOLD = 0.01, 0.125 * NOISE_STD**2
MEMBER, MOST = 10.0, 0.99  # of the blend with stored variances
LR, LAMBDA_EFF = 0.05, 0.32
# torch's default options of cuDNN, which the field's code has; `set_up` changes them.
AS_BY_DEFAULT = torch.backends.cudnn.flags(enabled=True, benchmark=False, allow_tf32=True)


@dataclass(frozen=True)
class Statistics:
    """Means (C, K, D), weights (C, K), variances (C, K) and number of samples of clusters."""

    means: Tensor
    weights: Tensor
    variances: Tensor
    samples: int


class Pictures(Dataset[tuple[Tensor, int]]):
    """Images of a split as PIL pictures, transformed one by one."""

    def __init__(self, split: Split, *, augmented: bool = False) -> None:
        self.pixels = split.images.permute(0, 2, 3, 1).numpy()
        self.labels = split.labels.tolist()
        crop = transforms.RandomCrop(self.pixels.shape[1], padding=4)
        changes = [crop, transforms.RandomHorizontalFlip(), transforms.RandomRotation(15)]
        last = [transforms.ToTensor()]
        self.transform = transforms.Compose(changes + last if augmented else last)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        """Return an image (C, H, W) in [0, 1] and its label."""
        return self.transform(Image.fromarray(self.pixels[index])), self.labels[index]


def loader(pictures: Pictures, batch: int, workers: int) -> "DataLoader[tuple[Tensor, int]]":
    """Return shuffled batches from processes that persist, since starting them is expensive."""
    options: dict[str, Any] = {"num_workers": workers, "persistent_workers": workers > 0}
    return DataLoader(pictures, batch_size=batch, shuffle=True, **options)


def penalty(z: Tensor, y: Tensor, found: Statistics) -> Tensor:
    """Return the clustering surrogate of features z (B, D) and labels y (B,), loop by loop."""
    total, present = z.new_zeros(()), sorted(set(y.tolist()))
    for label in present:
        members = z[y == label]
        nearest = torch.cdist(members, found.means[label]).argmin(1)
        for cluster in set(nearest.tolist()):
            total = total + _hinge(members[nearest == cluster], label, cluster, found)
    return total / len(present)


def step(
    model: SplitModel,
    found: Statistics | None,
    images: Tensor,
    labels: Tensor,
    noise: Tensor,
    optimiser: torch.optim.Optimizer,
) -> tuple[float, float]:
    """Update once, and return loss and accuracy, read from the device.

    The surrogate's gradient is computed first, then the task's. `images` are (B, C, H, W) in
    [0, 1], and `noise` (B, c, h, w) is added to the features. Without the clusters `found` of the
    last epoch, the surrogate is left out.
    """
    encoder, features = list(model.encoder.parameters()), model.encoder(images)
    pulls: tuple[Tensor, ...] = ()
    if found is not None:
        pull = penalty(features.flatten(1), labels, found)
        pulls = torch.autograd.grad(pull, encoder, retain_graph=True)
    logits = model.head(features + noise)
    loss = F.cross_entropy(logits, labels)
    optimiser.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    for weights, pull in zip(encoder, pulls, strict=False):  # no pulls without a surrogate
        assert weights.grad is not None
        weights.grad += LAMBDA_EFF * pull
    optimiser.step()
    return loss.item(), (logits.argmax(1) == labels).float().mean().item()


def fit(z: Tensor, y: Tensor, last: Statistics | None = None) -> Statistics:
    """Fit scikit-learn's K-means to features (N, D) class by class, from the last centroids."""
    means, weights, variances = [], [], []
    for label in range(CLASSES):
        part = z[y == label].cpu()
        start = "k-means++" if last is None else last.means[label].cpu().numpy()
        model = KMeans(CLUSTERS, init=start, n_init=1, max_iter=50, random_state=0)
        joined = torch.from_numpy(model.fit_predict(part.numpy())).long()
        centres = torch.from_numpy(model.cluster_centers_)
        counts = joined.bincount(minlength=CLUSTERS)
        spread = (part - centres[joined]).square().mean(1)
        sums = torch.zeros(CLUSTERS).index_add_(0, joined, spread)
        means.append(centres)
        weights.append(counts / len(part))
        variances.append(sums / counts.clamp(min=1))
    stacked = [torch.stack(each).to(z) for each in (means, weights, variances)]
    return Statistics(stacked[0], stacked[1], stacked[2], len(z))


class PlainLoop:
    """A training, with the surrogate if `clustered`: network, optimiser and loaders of images."""

    def __init__(self, data: Prepared, scale: Scale, *, clustered: bool) -> None:
        self.model, self.device = split_model(scale).to(scale.device), scale.device
        self.train = loader(Pictures(data.train, augmented=True), scale.batch, scale.workers)
        self.val = loader(Pictures(data.val), scale.batch, scale.workers)
        self.clustered = clustered
        self.found: Statistics | None = None
        parameters = self.model.parameters()
        self.optimiser = torch.optim.SGD(parameters, lr=LR, momentum=0.9, weight_decay=5e-4)

    @AS_BY_DEFAULT
    def epoch(self) -> None:
        """Take the steps, score the validation images, and fit the clusters for the next epoch."""
        self.pass_over()
        self.model.eval()
        with torch.no_grad():
            for images, labels in self.val:
                features = self.model.encoder(images.to(self.device))
                released = features + NOISE_STD * torch.randn_like(features)
                right = self.model.head(released).argmax(1).cpu() == labels
                right.float().mean().item()
            if self.clustered:
                self._second_pass()

    @AS_BY_DEFAULT
    def pass_over(self) -> None:
        """Take the training steps of an epoch."""
        self.model.train()
        for images, labels in self.train:
            shape = (len(images), *self.model.feature_shape)
            noise = NOISE_STD * torch.randn(shape, device=self.device)
            batch = images.to(self.device), labels.to(self.device)
            step(self.model, self.found, *batch, noise, self.optimiser)

    def _second_pass(self) -> None:
        pairs = [(self.model.encoder(x.to(self.device)).flatten(1), y) for x, y in self.train]
        z, y = (torch.cat(each) for each in zip(*pairs, strict=True))
        self.found = fit(z, y.to(self.device), self.found)


def _hinge(chosen: Tensor, label: int, cluster: int, found: Statistics) -> Tensor:
    """Return the penalty of one cluster from its members (n, D) in the batch."""
    weight = found.weights[label, cluster].item()
    expected = weight * found.samples / len(found.means)
    a = MEMBER * len(chosen) / expected if MEMBER * len(chosen) < expected else MOST
    spread = (chosen - found.means[label, cluster]).square().mean()
    variance = a * spread + (1 - a) * found.variances[label, cluster]
    return weight * F.relu(torch.log(variance + GAMMA) - math.log(THRESHOLD + GAMMA))
