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

from typing import ClassVar, Unpack

from torch import Tensor

from cemlib.config import surrogates as config
from cemlib.numerics.optim import scaled_gradient
from cemlib.surrogates.base import Sizes, Surrogate
from cemlib.surrogates.gated import GatedAttention
from cemlib.surrogates.logdet import LogDet


class LogDetGated(Surrogate):
    """Sum of the Gaussian bound and gated attention; see the module's text for the formula.

    Args:
        settings: its section of the configuration.
        sizes: those of `Surrogate`; the noise above 0.
    """

    settings: config.LogDetGated
    start_epoch: ClassVar[int] = GatedAttention.start_epoch

    def __init__(self, settings: config.LogDetGated, **sizes: Unpack[Sizes]) -> None:
        super().__init__(settings, **sizes)
        self.logdet = LogDet(settings, **sizes)
        self.gated = GatedAttention(settings, **sizes)

    def penalty(self, z: Tensor, y: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the penalty; logs both penalties, and what they log.

        `classes` are those of `logdet`, which include the other's; `active` is the share of the
        hinges of `gated`, the only ones there are.
        """
        weight = self.settings.gated_weight
        bound, bound_notes = self.logdet.penalty(z, y)
        spread, spread_notes = self.gated.penalty(scaled_gradient(z, weight), y)
        # The gradient has the weight already: its value is put in beside it.
        value = bound + weight * spread.detach() + (spread - spread.detach())
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
        """Tell what `logdet` tells."""
        return self.logdet.replayable

    def replayed(self) -> None:
        """Count the step for `logdet`."""
        self.logdet.replayed()
