"""The loss of a defended classifier, arranged so that one backward pass suffices."""

from typing import Any

import torch
from torch import Tensor


class _ScaleGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: float) -> Tensor:
        ctx.factor = factor
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return ctx.factor * gradients[0], None


def scale_gradient(x: Tensor, factor: float) -> Tensor:
    """The identity, whose gradient is multiplied by `factor`.

    A surrogate applied to `scale_gradient(z, lambda_eff)` and added to the task's loss pulls on the
    features with lambda_eff, while its own parameters receive factor 1: what the published
    two-pass order (surrogate first, cache the encoder's gradients, zero, task, add) computes.
    """
    scaled: Tensor = _ScaleGradient.apply(x, factor)
    return scaled
