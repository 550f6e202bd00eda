"""The reference: defended training as the field writes it, in plain float32.

Pictures go one by one through torchvision's transforms in the loader processes of a DataLoader;
networks are contiguous and eager; the surrogate's hinge is a Python loop over classes and clusters;
it has a backward pass of its own before the task's; loss and accuracy are read in every step; and
at an epoch's end the training images pass the encoder once more, for scikit-learn's K-means of
every class. What it computes is SPEC's clustering surrogate and two-pass order, so that it is also
what the fast path is held to.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from PIL import Image
from sklearn.cluster import KMeans
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms

from cemlib.bench.scale import CLUSTERS, NOISE_STD
from cemlib.data.prepared import Split
from cemlib.models.split import SplitModel

GAMMA, THRESHOLD = 0.01, 0.125 * NOISE_STD**2  # rho sigma^2
MEMBER, MOST = 10.0, 0.99  # of the blend with stored variances
LR, LAMBDA_EFF = 0.05, 0.32

Batches = Iterator[tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class Statistics:
    """What an epoch-end clustering stores of N training images."""

    means: Tensor  # (C, K, D)
    weights: Tensor  # (C, K)
    variances: Tensor  # (C, K)
    samples: int  # N


class Pictures(Dataset[tuple[Tensor, int]]):
    """Images of a split as PIL pictures, transformed one by one."""

    def __init__(self, split: Split, *, augmented: bool, padding: int = 4) -> None:
        self.pixels = split.images.cpu().permute(0, 2, 3, 1).squeeze(-1).numpy()
        self.labels = split.labels.tolist()
        changes = [
            transforms.RandomCrop(self.pixels.shape[1], padding=padding),
            transforms.RandomHorizontalFlip(),
            transforms.RandomRotation(15),
        ]
        last = [transforms.ToTensor()]
        self.transform = transforms.Compose(changes + last if augmented else last)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        """Image (C, H, W) in [0, 1] and label."""
        return self.transform(Image.fromarray(self.pixels[index])), self.labels[index]


def loader(
    pictures: Pictures, batch: int, workers: int, *, shuffle: bool
) -> "DataLoader[tuple[Tensor, int]]":
    """Batches of pictures; its processes stay, or every short pass would pay for their start."""
    return DataLoader(
        pictures,
        batch_size=batch,
        shuffle=shuffle,
        num_workers=workers,
        persistent_workers=workers > 0,
    )


def plain_penalty(z: Tensor, y: Tensor, statistics: Statistics) -> Tensor:
    """The clustering surrogate, class by class and cluster by cluster: z (B, D), y (B,)."""
    total = z.new_zeros(())
    present = sorted(set(y.tolist()))
    for label in present:
        members = z[y == label]
        nearest = torch.cdist(members, statistics.means[label]).argmin(1)
        for cluster in range(len(statistics.means[label])):
            chosen = members[nearest == cluster]
            if len(chosen) > 0:
                total = total + _hinge(chosen, label, cluster, statistics)
    return total / len(present)


def plain_step(
    model: SplitModel,
    statistics: Statistics | None,
    images: Tensor,
    labels: Tensor,
    noise: Tensor,
    lambda_eff: float,
    optimiser: torch.optim.Optimizer,
) -> dict[str, float]:
    """One update in the published order: surrogate, cached; task; sum.

    Args:
        model: the split model, in training mode.
        statistics: of the last epoch; None = no surrogate.
        images: (B, C, H, W) in [0, 1].
        labels: (B,).
        noise: what is added to the features, of their shape (B, c, h, w).
        lambda_eff: factor of the surrogate's gradient.
        optimiser: of the whole model.

    Returns:
        `loss` and `surrogate`, and `accuracy` as a fraction, read from the device.
    """
    encoder = list(model.encoder.parameters())
    features = model.encoder(images)
    penalty, pulls = features.new_zeros(()), list[Tensor]()
    if statistics is not None:
        penalty = plain_penalty(features.flatten(1), labels, statistics)
        optimiser.zero_grad()
        penalty.backward(retain_graph=True)  # type: ignore[no-untyped-call]
        pulls = [gradient.clone() for gradient in _gradients(encoder)]
    logits = model.head(features + noise)
    loss = F.cross_entropy(logits, labels)
    optimiser.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    for gradient, pull in zip(_gradients(encoder), pulls, strict=False):  # none without surrogate
        gradient += lambda_eff * pull
    optimiser.step()
    accuracy = (logits.argmax(1) == labels).float().mean()
    return {"loss": loss.item(), "surrogate": penalty.item(), "accuracy": accuracy.item()}


def plain_fit(z: Tensor, y: Tensor, last: Statistics | None, classes: int) -> Statistics:
    """K-means of scikit-learn, class by class, from the last centroids where there are any.

    Args:
        z: features (N, D); every class has at least as many as there are clusters.
        y: labels (N,).
        last: statistics of the epoch before.
        classes: number of classes C.
    """
    found = []
    for label in range(classes):
        part = z[y == label].cpu().numpy()
        start = "k-means++" if last is None else last.means[label].cpu().numpy()
        model = KMeans(CLUSTERS, init=start, n_init=1, max_iter=50, random_state=0).fit(part)
        found.append(_moments(part, model.cluster_centers_, model.labels_))
    means, weights, variances = (torch.stack(kind).to(z) for kind in zip(*found, strict=True))
    return Statistics(means, weights, variances, len(z))


class PlainLoop:
    """Training as a whole: the network, its optimiser, and the loaders of its images.

    Args:
        model: the split model; moved to the device and trained.
        train: training images.
        val: images that are scored at an epoch's end.
        batch: images per step.
        workers: loader processes.
        device: `cpu` or `cuda`.
        clustered: whether the surrogate is on.
    """

    def __init__(
        self,
        model: SplitModel,
        train: Split,
        val: Split,
        *,
        batch: int,
        workers: int,
        device: str,
        clustered: bool,
    ) -> None:
        self.model, self.device, self.clustered = model.to(device), device, clustered
        pictures = Pictures(train, augmented=True)
        self.train = loader(pictures, batch, workers, shuffle=True)
        self.val = loader(Pictures(val, augmented=False), batch, workers, shuffle=False)
        self.classes = len(set(pictures.labels))
        self.statistics: Statistics | None = None
        self.optimiser = torch.optim.SGD(
            self.model.parameters(), lr=LR, momentum=0.9, weight_decay=5e-4
        )

    def epoch(self) -> None:
        """A pass, the scores on held-out images, and the clustering of the next epoch."""
        self.pass_over()
        self.validate()
        if self.clustered:
            self.fit()

    def pass_over(self) -> list[dict[str, float]]:
        """The training steps of an epoch; what each of them said."""
        self.model.train()
        return [self._step(images, labels) for images, labels in self._on_device(self.train)]

    def fit(self) -> None:
        """The second pass of the training images through the encoder, and the clustering."""
        self.model.eval()
        features, targets = [], []
        with torch.no_grad():
            for images, labels in self._on_device(self.train):
                features.append(self.model.encoder(images).flatten(1))
                targets.append(labels)
        z, y = torch.cat(features), torch.cat(targets)
        self.statistics = plain_fit(z, y, self.statistics, self.classes)

    def validate(self) -> float:
        """Accuracy on the held-out images, with noise, as a fraction."""
        self.model.eval()
        right, seen = 0.0, 0
        with torch.no_grad():
            for images, labels in self._on_device(self.val):
                features = self.model.encoder(images)
                logits = self.model.head(features + self._noise(len(images)))
                right += (logits.argmax(1) == labels).sum().item()
                seen += len(labels)
        return right / seen

    def _step(self, images: Tensor, labels: Tensor) -> dict[str, float]:
        noise = self._noise(len(images))
        return plain_step(
            self.model, self.statistics, images, labels, noise, LAMBDA_EFF, self.optimiser
        )

    def _noise(self, count: int) -> Tensor:
        shape = (count, *self.model.feature_shape)
        return NOISE_STD * torch.randn(shape, device=self.device)

    def _on_device(self, batches: "DataLoader[tuple[Tensor, int]]") -> Batches:
        for images, labels in batches:
            yield images.to(self.device), labels.to(self.device)


def _hinge(chosen: Tensor, label: int, cluster: int, statistics: Statistics) -> Tensor:
    """The penalty of one cluster from its members (n, D) in the batch."""
    weight = statistics.weights[label, cluster].item()
    expected = weight * statistics.samples / len(statistics.means)
    a = MEMBER * len(chosen) / expected if MEMBER * len(chosen) < expected else MOST
    spread = (chosen - statistics.means[label, cluster]).square().mean()
    variance = a * spread + (1 - a) * statistics.variances[label, cluster]
    return weight * F.relu(torch.log(variance + GAMMA) - math.log(THRESHOLD + GAMMA))


def _gradients(parameters: list[nn.Parameter]) -> list[Tensor]:
    """Gradients where there are any; a backward pass reaches all of a group or none."""
    return [weights.grad for weights in parameters if weights.grad is not None]


def _moments(part: Any, centres: Any, joined: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Centroids (K, D), weights (K,) and scalar variances (K,) of one class's clusters."""
    weights, variances = [], []
    for cluster, centre in enumerate(centres):
        members = part[joined == cluster]
        weights.append(len(members) / len(part))
        variances.append(float(np.square(members - centre).mean()))
    return torch.tensor(centres), torch.tensor(weights), torch.tensor(variances)
