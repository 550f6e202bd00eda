"""Compute the gradients of DP-SGD: clipped per image, with Gaussian noise.

    g~ = 1/B ( sum_b g_b min(1, C / (|g_b| + 1e-6)) + C s N(0, I) )

Source: Abadi et al., "Deep learning with differential privacy", CCS 2016, algorithm 1; clipping as
in Opacus (Yousefpour et al. 2021).
"""

import importlib
import importlib.util

import torch
from torch import Tensor
from torch.func import vmap

from cemlib.config.federated import DpSgd
from cemlib.federated.network import FederatedNet, Weights, gradients

_ADDED = 1e-6  # added to the norm, as in Opacus
# Orders of the Renyi divergence; the best one is near 1 at low noise. Those above 11 are integers,
# because Opacus' series for fractional ones gives negative divergences there.
_ORDERS = [1 + 10 ** (k / 20) for k in range(-60, 21)]
_ORDERS += [round(1 + 10 ** (k / 20)) for k in range(21, 61)]


def private_gradients(
    net: FederatedNet, weights: Weights, x: Tensor, y: Tensor, noise: Weights, clip: float
) -> tuple[Weights, Tensor]:
    """Return the mean of the clipped gradients of images (B, C, H, W) plus noise, and the loss.

    `clip` is the largest L2 norm of an image's gradient over all parameters. The `noise`, from
    `draw_noise`, is scaled by clip / B.
    """

    def one(image: Tensor, label: Tensor) -> tuple[Weights, Tensor]:
        gradient, value = gradients(net, weights, image.unsqueeze(0), label.unsqueeze(0))
        length = torch.stack([g.square().sum() for g in gradient.values()]).sum().sqrt()
        factor = (clip / (length + _ADDED)).clamp(max=1)
        return {name: factor * g for name, g in gradient.items()}, value

    clipped, values = vmap(one)(x, y)
    noised = {name: g.mean(0) + clip / len(x) * noise[name] for name, g in clipped.items()}
    return noised, values.mean()


def draw_noise(weights: Weights, multiplier: float, generator: torch.Generator) -> Weights:
    """Draw normal noise times the multiplier for every weight; on the CPU, for any device."""
    return {
        name: multiplier * torch.randn(w.shape, generator=generator, dtype=w.dtype).to(w.device)
        for name, w in weights.items()
    }


def epsilon(settings: DpSgd, sample_rate: float = 1.0, steps: int = 1) -> float | None:
    """Return epsilon by Opacus' Renyi accountant: infinite without noise, None without Opacus."""
    if settings.noise_multiplier == 0:
        return float("inf")
    if importlib.util.find_spec("opacus") is None:
        return None
    accountant = importlib.import_module("opacus.accountants").RDPAccountant()
    accountant.history = [(settings.noise_multiplier, sample_rate, steps)]
    return float(accountant.get_epsilon(delta=settings.delta, alphas=_ORDERS))
