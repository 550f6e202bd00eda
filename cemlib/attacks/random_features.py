"""Ridge regression on random features of the release, mixed with a trained decoder.

    u = (z~ - m) / s        phi(z~) = (u, relu(u P + q))
    answer = share d(z~) + (1 - share) (W^T phi(z~) + b)

with the mean m and the standard deviation s of releases of the attacker's images, P ~ N(0, 1 / D)
and q ~ N(0, 1 / 4), which are drawn once and not trained, and the decoder d of another attack. W
and b are fitted in closed form to at least `RELEASES` releases of these images. The penalty of the
regression and the share, in [0, 1], are those with the lowest error on images held out. The two are
mixed because they make different errors: with few images a decoder overfits, and with many the
regression adds less, since its features do not know that neighbouring pixels belong together.

Sources: Rahimi and Recht, "Random features for large-scale kernel machines", NeurIPS 2007; Cho and
Saul, "Kernel methods for deep learning", NeurIPS 2009 (the kernel of such features); Breiman,
"Stacked regressions", Machine Learning 24, 1996.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from cemlib.attacks.learning import CHUNK
from cemlib.attacks.task import Outcome, Task
from cemlib.attacks.wiener import check_features
from cemlib.models.decoder import CorrectedDecoder
from cemlib.numerics.ridge import best_ridge, best_share
from cemlib.numerics.seeds import generator

RELEASES = 2**15  # least number of releases in the fit
DRAWS = 2  # least number of releases of an image in the fit
TOGETHER = 4096  # releases whose products are computed at once
SHIFT = 0.5  # standard deviation of q
SMALLEST = 1e-9  # least eigenvalue of the features' covariance; smaller ones are rounding errors


@dataclass(frozen=True)
class Features:
    """The map phi from releases (N, c, h, w) to features (N, D + M).

    `inputs` maps releases to (N, D), with an estimate of a sparse coding's input in place of its
    output.
    `mean` and `std` (D,) are m and s (1 where all releases are the same), `projection` (D, M) and
    `shift` (M,) are P and q.
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
    decoder, features = task.start, drawn(task, task.start)
    noise = generator(task.seed, "attack_ridge_noise", device=task.released.device)
    released, truth = task.release(task.held_out.features, noise), task.held_out.targets()
    weights, intercept = fitted(task, features, _in_parts(features, released), truth)

    def regression(released: Tensor) -> Tensor:
        answers = torch.addmm(intercept, features(released), weights).clamp(0, 1)
        return answers.view(-1, *task.image_shape)

    share = best_share(_in_parts(decoder, released), _in_parts(regression, released), truth)
    mixed = _in_parts(regression, task.released).lerp(_in_parts(decoder, task.released), share)
    return Outcome(mixed, {"share": share, "intercept": intercept})


def drawn(task: Task, start: nn.Module) -> Features:
    """Return the map of an attack, with P and q from its seed and m and s from one release."""
    check_features(task.own.features)

    def inputs(released: Tensor) -> Tensor:
        flat = released.flatten(1)
        return start.undo_coding(flat) if isinstance(start, CorrectedDecoder) else flat

    noise = generator(task.seed, "attack_noise", device=task.released.device)
    seen = _in_parts(inputs, task.release(task.own.features, noise))
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
    mean, image, covariance, cross = _moments(task, features)
    values, vectors = torch.linalg.eigh(covariance)
    values, turned = values.clamp_min(SMALLEST), vectors.T @ cross
    ridge = best_ridge(values, turned, (seen - mean) @ vectors, image, truth.flatten(1))
    weights = vectors @ (turned / (values + ridge)[:, None])
    return weights.float(), (image - mean @ weights).float()


def _moments(task: Task, features: Features) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the means of features and pixels, and their covariances, in float64."""
    own, sides = task.own, (sum(features.projection.shape), math.prod(task.image_shape))
    mean, image = (own.features.new_zeros(side, dtype=torch.float64) for side in sides)
    covariance, cross = (torch.outer(mean, other) for other in (mean, image))
    count = len(own.images) * max(DRAWS, math.ceil(RELEASES / len(own.images)))
    noise = generator(task.seed, "attack_noise", 1, device=mean.device)
    for rows in torch.split(torch.arange(count, device=mean.device) % len(own.images), TOGETHER):
        seen = features(task.release(own.features[rows], noise)).double()
        pixels = own.targets(rows).flatten(1).double()
        mean += seen.sum(0) / count
        image += pixels.sum(0) / count
        covariance.addmm_(seen.T, seen, alpha=1 / count)
        cross.addmm_(seen.T, pixels, alpha=1 / count)
    return mean, image, covariance.addr_(mean, mean, alpha=-1), cross.addr_(mean, image, alpha=-1)


def _in_parts(function: Callable[[Tensor], Tensor], released: Tensor) -> Tensor:
    return torch.cat([function(part) for part in torch.split(released, CHUNK)])
