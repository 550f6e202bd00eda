"""The loss of a defended classifier, arranged so that one backward pass suffices."""

from typing import Any

import torch
from torch import Tensor

from cemlib.optim import Rate


class _Fork(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor, factor: Rate, norms: Tensor) -> tuple[Tensor, Tensor]:
        ctx.factor, ctx.norms = factor, norms
        return z.view_as(z), z.flatten(1)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        task, penalty = gradients[0], ctx.factor * gradients[1].view_as(gradients[0])
        torch.stack([task.norm(), penalty.norm()], out=ctx.norms)
        return task + penalty, None, None


def fork(z: Tensor, factor: Rate) -> tuple[Tensor, Tensor, Tensor]:
    """Hand features to the task and to a surrogate that pulls on them `factor` times.

    A surrogate applied to its branch and added to the task's loss pulls on the features with
    `factor`, while its own parameters receive factor 1: what the published two-pass order
    (surrogate first, cache the encoder's gradients, zero, task, add) computes.

    Args:
        z: features, (B, ...).
        factor: lambda_eff.

    Returns:
        The task's branch, of the shape of z; the surrogate's, (B, D); and a tensor of two, which
        the backward pass fills with the norms of the task's and of the surrogate's gradient at z,
        the latter times `factor`.
    """
    norms = torch.zeros(2, dtype=z.dtype, device=z.device)
    task, penalty = _Fork.apply(z, factor, norms)
    return task, penalty, norms
