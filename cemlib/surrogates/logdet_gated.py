"""`logdet_gated`: the bound of `logdet` and the penalty of `gated`, added.

Source: the two surrogates, see `logdet` and `gated` for theirs. With the weight w,

    R = R_logdet + w R_gated

where each is the penalty that its surrogate alone has on the batch. The two measure different
things: `logdet` the released scale and all directions, over many batches; `gated` the spread of
this batch about a learned centre, with `layernorm` whatever its scale.

Features are pulled by dR/dz. The attention's own parameters get the gradient of R_gated, without
w: what they would get if `gated` were alone. So the training is that of two surrogates side by
side, of strengths lambda and w lambda, but that both act from epoch 6 on, as `gated` does.

With w = 0 the features are pulled as by `logdet` from that epoch on.

How it fails: as each of the two does. The pulls can be of very different size, and lambda and w
lambda say nothing about it: compare `logdet_value` and `gated_value` with what they are alone.
"""

from typing import Any, ClassVar

import torch
from torch import Tensor

from cemlib.surrogates.base import Surrogate, at_least
from cemlib.surrogates.gated import GatedAttention, Moments, SurrogateGrad, Variance
from cemlib.surrogates.logdet import LogDet
from cemlib.surrogates.moments import Gate


class _Weigh(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor, weight: float) -> Tensor:
        ctx.weight = weight
        return z.view_as(z)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return ctx.weight * gradients[0], None


class LogDetGated(Surrogate):
    """Sum of the Gaussian bound and gated attention; see the module's text for the formula.

    Args:
        dim: number of feature dimensions D.
        num_classes: number of classes C.
        noise_std: standard deviation sigma of the released noise, above 0.
        gated_weight: w.
        momentum: of `logdet`: share that running moments keep from batch to batch; None averages
            about 4 D samples.
        refresh: of `logdet`: steps from one factorisation to the next.
        shrinkage: of `logdet`: share of each covariance that is spread over all directions.
        moments: of `gated`: features whose moments are taken; raw is the released scale.
        variance: of `gated`: one variance per dimension, or the squared norm.
        gate: of `gated`: form of the hinge.
        scale: of `gated`: constant factor s.
        hidden: of `gated`: width h of the attention; None is min(512, max(64, D // 4)).
        surrogate_grad: of `gated`: how the attention trains.
        var_threshold: of `gated`: rho.
    """

    start_epoch: ClassVar[int] = GatedAttention.start_epoch

    def __init__(
        self,
        *,
        dim: int,
        num_classes: int,
        noise_std: float,
        gated_weight: float = 1.0,
        momentum: float | None = None,
        refresh: int = 50,
        shrinkage: float = 0.0,
        moments: Moments = "layernorm",
        variance: Variance = "diagonal",
        gate: Gate = "log",
        scale: float = 0.1,
        hidden: int | None = None,
        surrogate_grad: SurrogateGrad = "descend",
        var_threshold: float = 0.125,
    ) -> None:
        common: dict[str, Any] = {"dim": dim, "num_classes": num_classes, "noise_std": noise_std}
        common["var_threshold"] = var_threshold
        super().__init__(**common)
        at_least("gated_weight", gated_weight, 0)
        self.gated_weight = gated_weight
        self.logdet = LogDet(momentum=momentum, refresh=refresh, shrinkage=shrinkage, **common)
        self.gated = GatedAttention(
            moments=moments,
            variance=variance,
            gate=gate,
            scale=scale,
            hidden=hidden,
            surrogate_grad=surrogate_grad,
            **common,
        )

    def penalty(self, z: Tensor, y: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """See the base class; logs both penalties, and what they log.

        `classes` are those of `logdet`, which include the other's; `active` is the share of the
        hinges of `gated`, the only ones there are.
        """
        bound, bound_notes = self.logdet.penalty(z, y)
        spread, spread_notes = self.gated.penalty(_Weigh.apply(z, self.gated_weight), y)
        # The gradient has the weight already: its value is put in beside it.
        value = bound + self.gated_weight * spread.detach() + (spread - spread.detach())
        return value, {
            **spread_notes,
            **bound_notes,
            "active": spread_notes["active"],
            "logdet_value": bound.detach(),
            "gated_value": spread.detach(),
        }

    def reseed(self, seed: int) -> None:
        """Factorise at the next step, as `logdet` does."""
        self.logdet.reseed(seed)

    @property
    def replayable(self) -> bool:
        """As `logdet`."""
        return self.logdet.replayable

    def replayed(self) -> None:
        """Count the step for `logdet`."""
        self.logdet.replayed()
