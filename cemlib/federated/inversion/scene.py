"""Compute what the server sees of the attacked images: their gradients behind a defence."""

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor
from torch.func import vmap

from cemlib.config.federated import MaskConfig, Variant
from cemlib.federated.client import step_inputs, step_mask, step_of, train_at_once
from cemlib.federated.drawing import ATTACKED, Draws
from cemlib.federated.inversion.gradients import Gradients, Shared, kept
from cemlib.federated.mask import draw_columns, hadamard
from cemlib.federated.network import FederatedNet, gradients, stack, weights_of
from cemlib.federated.private import draw_noise, private_gradients
from cemlib.numerics.seeds import generator


@dataclass(frozen=True)
class Repeats:
    """Mixtures that an attacker links: of one class and client, in several rounds."""

    # (N, M, R, C, H, W), the mixtures in R rounds of M images: an attacked image comes first,
    # followed by others of its class and client.
    mixtures: Tensor
    share: float  # mean share of the true image in a mixture
    spread: Tensor  # (classes,), variance over images not attacked, averaged over the pixels


@dataclass(frozen=True)
class Scene:
    """The attacked images, and what the attacker has besides their gradients."""

    images: Tensor  # (N, C, H, W) in [0, 1], the true images
    labels: Tensor  # (N,), their labels
    trained: Tensor  # (N, C, H, W), what the client trains on: mixtures, or the images themselves
    ratio: Tensor  # (N,), the share of the true image in each of them
    prior: Tensor  # (classes, C, H, W), the mean of each class over images that are not attacked
    repeats: Repeats | None = None  # what an attacker can link; None if no attack links any


def shared_gradients(
    net: FederatedNet,
    scene: Scene,
    variant: Variant,
    batch: int,
    seed: int,
    steps: int = 1,
    lr: float = 0.0,
) -> Shared:
    """Return what the server sees of a scene, with `batch` images behind each gradient.

    The variant's mask or DP-SGD is applied here; its mixing is in the scene. Draws depend on seed
    and number of the gradient, never on the variant. From an update of several `steps`, on
    batch / steps images each, the server computes the mean gradient.
    """
    images = scene.trained.reshape(-1, batch, *scene.trained.shape[1:])
    labels, mask = scene.labels.view(-1, batch), None
    if steps > 1:
        draws = [Draws(seed, client, ATTACKED) for client in range(len(images))]
        x = images.view(len(images), steps, -1, *images.shape[2:])
        y = labels.view(len(labels), steps, -1)
        work = step_inputs(net, variant, x, y, draws)
        changes, _ = train_at_once(step_of(net, variant), weights_of(net), work, lr)
        found = {name: change / (-lr * steps) for name, change in changes.items()}
    else:
        found = _gradients(net, images, labels, variant, seed)
        mask = None if variant.mask is None else _masks(net, images, variant.mask, seed)
    return Shared(kept(found, mask), scene.prior, batch, mask, steps, lr)


def _gradients(
    net: FederatedNet, images: Tensor, labels: Tensor, variant: Variant, seed: int
) -> Gradients:
    """Return the gradients (P, ...) of images (P, B, C, H, W), clipped and noised by DP-SGD."""
    if variant.dp_sgd is None:
        return vmap(partial(gradients, net, weights_of(net)))(images, labels)[0]
    weights, private, found = weights_of(net), variant.dp_sgd, []
    for number, (x, y) in enumerate(zip(images, labels, strict=True)):
        draws = generator(seed, "inversion_noise", number)
        noise = draw_noise(weights, private.noise_multiplier, draws)
        found.append(private_gradients(net, weights, x, y, noise, private.clip)[0])
    return stack(found)


def _masks(net: FederatedNet, images: Tensor, how: MaskConfig, seed: int) -> Tensor:
    """Return the factors of the gradient of the last layer's weight: (P, outputs, l)."""
    weights, outputs, found = weights_of(net), net.classifier.out_features, []
    for number, group in enumerate(images):
        mask = step_mask(net, weights, group, how)
        draws = generator(seed, "inversion_columns", number)
        found.append(hadamard(mask, draw_columns(how.beta, outputs, draws).to(mask)))
    return torch.stack(found)
