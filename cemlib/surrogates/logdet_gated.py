"""`logdet_gated`: the sum of the bound of `logdet` and the penalty of `gated`.

    R = R_logdet + w R_gated

The two measure different things: `logdet` the released scale and all directions, over many batches;
`gated` the spread of one batch about a learned centre, with `layernorm` at any scale.

The features get dR/dz. The parameters of the attention get the gradient of R_gated without w, as
with `gated` alone. Both parts act from epoch 6 on, as `gated` does.
"""

from typing import ClassVar, Unpack

from torch import Tensor

from cemlib.config import surrogates as config
from cemlib.numerics.optim import scaled_gradient
from cemlib.surrogates.base import Sizes, Surrogate
from cemlib.surrogates.gated import GatedAttention
from cemlib.surrogates.logdet import LogDet


class LogDetGated(Surrogate):
    """The sum of the Gaussian bound and gated attention; the module's docstring has the formula."""

    settings: config.LogDetGated
    start_epoch: ClassVar[int] = GatedAttention.start_epoch

    def __init__(self, settings: config.LogDetGated, **sizes: Unpack[Sizes]) -> None:
        super().__init__(settings, **sizes)
        self.logdet = LogDet(settings, **sizes)
        self.gated = GatedAttention(settings, **sizes)

    def penalty(self, z: Tensor, y: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the penalty; logs both penalties and their scalars."""
        weight = self.settings.gated_weight
        bound, bound_notes = self.logdet.penalty(z, y)
        spread, spread_notes = self.gated.penalty(scaled_gradient(z, weight), y)
        # The gradient of z already has the factor w: the value is added without a gradient.
        value = bound + weight * spread.detach() + (spread - spread.detach())
        return value, {
            **spread_notes,
            **bound_notes,
            "active": spread_notes["active"],
            "logdet_value": bound.detach(),
            "gated_value": spread.detach(),
        }
