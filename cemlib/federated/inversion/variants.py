"""Apply the defences that are attacked: what becomes of an image before its gradient is shared."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from cemlib.config.federated_attacks import DpSgd
from cemlib.federated.client import Masking, step_mask
from cemlib.federated.inversion.gradients import Gradients, Shared, kept, true_gradients
from cemlib.federated.mask import draw_columns, hadamard
from cemlib.federated.network import FederatedNet, weights_of
from cemlib.federated.private import draw_noise, private_gradients
from cemlib.numerics.seeds import generator


@dataclass(frozen=True)
class Variant:
    """Choose a defence: mixed images or true ones, then a mask, or DP-SGD, or nothing.

    Attributes:
        mixed: Whether the gradient is of the mixture with a pseudo image.
        masking: The mask of the last layer's gradient; None = none.
        dp_sgd: Clipping and noise; None = none.
    """

    mixed: bool = False
    masking: Masking | None = None
    dp_sgd: DpSgd | None = None


@dataclass(frozen=True)
class Scene:
    """Hold what is attacked, and what the attacker has besides.

    Attributes:
        images: (N, C, H, W) in [0, 1]: the true ones.
        labels: (N,).
        mixed: (N, C, H, W): what the client trains on in place of them.
        ratio: (N,) share of the true image in each mixture.
        prior: (classes, C, H, W): mean of each class over images that are not attacked.
    """

    images: Tensor
    labels: Tensor
    mixed: Tensor
    ratio: Tensor
    prior: Tensor

    def trained_on(self, variant: Variant) -> Tensor:
        """Return the images (N, C, H, W) whose gradient is shared."""
        return self.mixed if variant.mixed else self.images


def shared_gradients(
    net: FederatedNet, scene: Scene, variant: Variant, batch: int, seed: int
) -> Shared:
    """Return what the server sees of the scene under a defence, `batch` images a gradient.

    Random draws depend on the seed and the number of the gradient, never on the variant.

    Raises:
        ValueError: `batch` does not divide the number of images.
    """
    if len(scene.labels) % batch:
        raise ValueError(f"{len(scene.labels)} images make no whole gradients of {batch} each")
    problems = len(scene.labels) // batch
    images = scene.trained_on(variant).reshape(problems, batch, *scene.images.shape[1:])
    labels = scene.labels.view(problems, batch)
    clean = _clean(net, images, labels, variant, seed)
    mask = None if variant.masking is None else _masks(net, images, variant.masking, seed)
    ratio = scene.ratio.view(problems, batch).mean(1) if variant.mixed else None
    shape = scene.images.shape[1:]
    return Shared(
        kept(clean, mask), (shape[0], shape[1], shape[2]), scene.prior, batch, mask, ratio
    )


def _clean(
    net: FederatedNet, images: Tensor, labels: Tensor, variant: Variant, seed: int
) -> Gradients:
    if variant.dp_sgd is None:
        return true_gradients(net, images, labels)
    draws = [generator(seed, "inversion_noise", number) for number in range(len(images))]
    return dp_sgd_gradients(net, images, labels, variant.dp_sgd, draws)


def dp_sgd_gradients(
    net: FederatedNet,
    images: Tensor,
    labels: Tensor,
    settings: DpSgd,
    generators: Sequence[torch.Generator],
) -> Gradients:
    """Return clipped and noised gradients of images (P, B, C, H, W) with labels (P, B).

    Args:
        net: the network.
        images: in [0, 1].
        labels: of the images.
        settings: bound and noise.
        generators: one for each problem, on the CPU; draws its noise, parameter after parameter.
    """
    weights = weights_of(net)
    found = []
    for x, y, draws in zip(images, labels, generators, strict=True):
        noise = draw_noise(weights, settings.noise_multiplier, draws)
        found.append(private_gradients(net, weights, x, y, noise, settings.clip)[0])
    return {name: torch.stack([each[name] for each in found]).detach() for name in weights}


def _masks(net: FederatedNet, images: Tensor, masking: Masking, seed: int) -> Tensor:
    """Return what each gradient of the last layer's weight is multiplied by: (P, outputs, l)."""
    weights, outputs, found = weights_of(net), net.classifier.out_features, []
    for number, group in enumerate(images):
        mask = step_mask(net, weights, group, masking).detach()
        draws = generator(seed, "inversion_columns", number)
        found.append(hadamard(mask, draw_columns(masking.beta, outputs, draws).to(mask)))
    return torch.stack(found)
