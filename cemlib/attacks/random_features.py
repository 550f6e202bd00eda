"""Ridge regression on random features of the release, mixed with a trained decoder.

    u = (z~ - m) / s        phi(z~) = (u, relu(u P + q))
    answer = share d(z~) + (1 - share) (W^T phi(z~) + b)

with the mean m and the standard deviation s of the releases of the attacker's images, normal random
numbers P and q, which are not trained, and the decoder d of another attack. W and b are fitted to
`RELEASES` or more releases of these images in closed form. The penalty of the regression and the
share, in [0, 1], are those with the lowest error on images held out. If the decoder undoes a sparse
coding, z~ is replaced by its estimate of the coding's input.

A decoder that is trained on few images overfits, and makes other errors than the regression.

Sources: Rahimi and Recht, "Random features for large-scale kernel machines", NeurIPS 2007; Cho and
Saul, "Kernel methods for deep learning", NeurIPS 2009 (the kernel of such features); Breiman,
"Stacked regressions", Machine Learning 24, 1996.

How it fails: the random features do not know that neighbouring pixels belong together, so with many
images the decoder alone is about as good.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cemlib.attacks.task import Outcome, Task
from cemlib.attacks.wiener import CHUNK, check_features
from cemlib.models.decoder import CorrectedDecoder
from cemlib.numerics.ridge import best_share
from cemlib.numerics.seeds import generator

RELEASES = 2**15  # least number of releases in the fit
DRAWS = 2  # least number of releases of an image in the fit
SHIFT = 0.5  # standard deviation of q
RIDGES = tuple(10.0**power for power in range(-4, 2))  # multiples of the features' mean variance
SMALLEST = 1e-30  # smallest mean variance of a feature


@dataclass(frozen=True)
class Features:
    """The map phi from releases (N, c, h, w) to features (N, D + M).

    Attributes:
        inputs: Maps releases to (N, D), with the input of a sparse coding in place of its output.
        mean, std: m and s, (D,); s is 1 where all releases are the same.
        projection, shift: P (D, M) and q (M,).
    """

    inputs: Callable[[Tensor], Tensor]
    mean: Tensor
    std: Tensor
    projection: Tensor
    shift: Tensor

    def __call__(self, released: Tensor) -> Tensor:
        """Return the features of some releases."""
        u = (self.inputs(released) - self.mean) / self.std
        return torch.cat([u, torch.addmm(self.shift, u, self.projection).relu()], 1)


@torch.no_grad()
def random_features(task: Task) -> Outcome:
    """Fit to the attacker's pairs, and reconstruct every release in [0, 1].

    Raises:
        DivergedError: if a feature is not finite.
    """
    assert task.start is not None
    features = drawn(task, task.start)
    noise = generator(task.seed, "attack_ridge_noise", device=task.released.device)
    released, truth = task.release(task.held_out.features, noise), task.held_out.targets()
    weights, intercept = fitted(task, features, features(released), truth)

    def answers(released: Tensor) -> Tensor:
        parts = torch.split(released, CHUNK)
        found = [torch.addmm(intercept, features(part), weights).clamp(0, 1) for part in parts]
        return torch.cat(found).view(-1, *task.image_shape)

    share = best_share(_decoded(task.start, released), answers(released), truth)
    mixed = answers(task.released).lerp(_decoded(task.start, task.released), share)
    return Outcome(mixed, {"share": share, "intercept": intercept})


def drawn(task: Task, start: nn.Module) -> Features:
    """Return the map of an attack, with P and q from its seed and m and s from one release."""
    check_features(task.own.features)

    def inputs(released: Tensor) -> Tensor:
        flat = released.flatten(1)
        return start.undo_coding(flat) if isinstance(start, CorrectedDecoder) else flat

    noise = generator(task.seed, "attack_noise", device=task.released.device)
    parts = torch.split(task.release(task.own.features, noise), CHUNK)
    seen = torch.cat(list(map(inputs, parts)))
    std, draws = seen.std(0), generator(task.seed, "random_features")
    dim, count = seen.shape[1], task.options["features"]
    projection = torch.randn(dim, count, generator=draws) / math.sqrt(dim)
    shift = SHIFT * torch.randn(count, generator=draws)
    std = torch.where(std > 0, std, 1)
    return Features(inputs, seen.mean(0), std, projection.to(std), shift.to(std))


def fitted(task: Task, features: Features, seen: Tensor, truth: Tensor) -> tuple[Tensor, Tensor]:
    """Return W (D + M, P) and b (P,) of the ridge regression with the best penalty.

    `seen` are the features of images `truth`, on which the penalties are compared.
    """
    mean, image, gram, cross = _moments(task, features)
    ridges = gram.diagonal().mean().clamp_min(SMALLEST) * torch.tensor(RIDGES).to(gram)
    lowest, best = math.inf, cross
    for ridge in ridges:
        penalised = gram + torch.diag(ridge.expand(len(gram)))
        weights = torch.cholesky_solve(cross, torch.linalg.cholesky(penalised))
        answers = ((seen - mean) @ weights + image).clamp(0, 1)
        error = F.mse_loss(answers, truth.flatten(1).double()).item()
        if error < lowest:
            lowest, best = error, weights
    return best.float(), (image - mean @ best).float()


def _moments(task: Task, features: Features) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the means of features and pixels, and their covariances, in float64."""
    own, sides = task.own, (sum(features.projection.shape), math.prod(task.image_shape))
    mean, image = (own.features.new_zeros(side, dtype=torch.float64) for side in sides)
    gram, cross = (torch.outer(mean, other) for other in (mean, image))
    count = len(own.images) * max(DRAWS, math.ceil(RELEASES / len(own.images)))
    noise = generator(task.seed, "attack_noise", 1, device=gram.device)
    for rows in torch.split(torch.arange(count, device=gram.device) % len(own.images), CHUNK):
        seen = features(task.release(own.features[rows], noise))
        pixels = own.targets(rows).flatten(1)
        mean += seen.sum(0, dtype=torch.float64) / count
        image += pixels.sum(0, dtype=torch.float64) / count
        gram += (seen.T @ seen).double() / count
        cross += (seen.T @ pixels).double() / count
    return mean, image, gram - torch.outer(mean, mean), cross - torch.outer(mean, image)


def _decoded(decoder: nn.Module, released: Tensor) -> Tensor:
    return torch.cat([decoder(part) for part in torch.split(released, CHUNK)])
