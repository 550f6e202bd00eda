"""`parallel` and `shortcut`: fusions of the surrogates `gated` and `slot`.

With learned m and a,

    parallel:  R = m_1 R_gated + m_2 R_slot,   (m_1, m_2) = softmax of two logits, both 0 at first
    shortcut:  v = max(v_gated + tanh(a) sum_k w_k v_k, 1e-6),   a = `residual` at first
               with `nonnegative` max(tanh(a), 0) in place of tanh(a)
               then the hinge, the means over dimensions and classes and the scale of `gated`

In `parallel` each penalty has its own scale and its own classes. In `shortcut` v_gated is the
attention-weighted variance of each dimension, w_k and v_k are the weights and variances of the
slots, without the gates of `slot`, and a class of two samples, which has no slots, uses v_gated
alone. The floor is applied once, to the sum (with `variance: trace` to its sum over dimensions).
"""

from typing import ClassVar, Unpack

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cemlib.config import surrogates as config
from cemlib.surrogates.base import Sizes, Surrogate
from cemlib.surrogates.gated import GatedAttention
from cemlib.surrogates.slot import SlotAttention


class Fusion(Surrogate):
    """The branches `gated` and `slot`; the latter's penalty has no factor of its own."""

    start_epoch: ClassVar[int] = GatedAttention.start_epoch

    def __init__(self, settings: config.Fusion, **sizes: Unpack[Sizes]) -> None:
        super().__init__(settings, **sizes)
        self.gated = GatedAttention(settings, **sizes)
        shared = settings.model_dump(include=set(config.Slots.model_fields))
        self.slot = SlotAttention(config.Slot(**shared, scale=1.0), **sizes)


class ParallelFusion(Fusion):
    """Both penalties, mixed by learned weights; the module's docstring has the formula."""

    settings: config.Parallel

    def __init__(self, settings: config.Parallel, **sizes: Unpack[Sizes]) -> None:
        super().__init__(settings, **sizes)
        self.logits = nn.Parameter(torch.zeros(2))

    def penalty(self, z: Tensor, y: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the penalty; logs both penalties, their scalars, and m_2 as `slot_share`."""
        value, notes = self.gated.penalty(z, y)
        unscaled, slot_notes = self.slot.penalty(z, y)
        slot_value = self.settings.slot_scale * unscaled
        shares = self.logits.softmax(0)
        mixed = shares.detach() @ torch.stack([notes["active"], slot_notes["active"]])
        return shares @ torch.stack([value, slot_value]), {
            **slot_notes,
            **notes,
            "active": mixed,
            "gated_value": value.detach(),
            "slot_value": slot_value.detach(),
            "slot_share": shares[1].detach(),
        }


class ShortcutFusion(Fusion):
    """Gated variances plus those around slots; the module's docstring has the formula."""

    settings: config.Shortcut

    def __init__(self, settings: config.Shortcut, **sizes: Unpack[Sizes]) -> None:
        super().__init__(settings, **sizes)
        self.a = nn.Parameter(torch.tensor(settings.residual))

    def penalty(self, z: Tensor, y: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the penalty; logs the scalars of both spreads, and the `strength` of the slots."""
        v, groups, notes = self.gated.spread(z, y)
        (weights, _, variance), _, slot_notes = self.slot.spread(z, y)
        strength = self.a.tanh().relu() if self.settings.nonnegative else self.a.tanh()
        residual = strength * torch.einsum("rs,rsd->rd", weights, variance)
        # Both branches sort classes by size: the rows of the slots are the first ones.
        v = v + F.pad(residual, (0, 0, 0, len(v) - len(residual)))
        value, hinges = self.gated.hinge(v, groups)
        return value, notes | slot_notes | hinges | {"strength": strength.detach()}
