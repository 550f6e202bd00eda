"""`parallel` and `shortcut`: fusions of the surrogates `gated` and `slot`.

Source: the two surrogates, see `gated` and `slot` for theirs. With m and a learned,

    parallel:  R = m_1 R_gated + m_2 R_slot,   (m_1, m_2) = softmax of two logits, both 0 at first
    shortcut:  v = max(v_gated + tanh(a) sum_k w_k v_k, 1e-6),   a = `residual` at first
               then the hinge, the means over dimensions and classes and the scale of `gated`

In `parallel` each penalty is the one that its surrogate alone has on the batch, with its own scale
and its own classes. In `shortcut` v_gated is the attention-weighted variance of each dimension, w_k
and v_k are the weights and variances of the slots, and a class of two samples, which has no slots,
keeps v_gated alone. The floor acts once, on the sum (`variance: trace`: on its sum over dimensions)
and on neither part before. Slots always look at LayerNorm(z), also where `moments` is raw, and
`surrogate_grad` rules the gated attention alone: all else descends. The gates of `slot` (`gate`,
`a_c`, `b_c`) take no part in `shortcut` and stay as they start.

With `use_slots: false` both are `gated`, bit for bit.

How they fail: the mix is trained on the sum, and dR/dlogit_2 = m_1 m_2 (R_slot - R_gated), so
`parallel` drifts to whichever penalty is smaller, which need not be the one that protects: watch
`slot_share`. In `shortcut` the slots' variance is never negative, so dR/da >= 0 and training only
lowers a: below 0 the spread around slots cancels v_gated and is rewarded, and at the floor no
gradient is left: watch `strength`. With raw moments the slots' variance is still on LayerNorm's
scale, of order 1 a dimension, and can outweigh the released scale's.
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
    """The two branches; `slot` is None where it is switched off.

    Args:
        settings: the fusion's section of the configuration.
        slot_scale: constant factor s of the slot branch.
        sizes: those of `Surrogate`.
    """

    start_epoch: ClassVar[int] = GatedAttention.start_epoch

    def __init__(
        self, settings: config.Fusion, *, slot_scale: float = 0.25, **sizes: Unpack[Sizes]
    ) -> None:
        super().__init__(settings, **sizes)
        self.gated = GatedAttention(settings, **sizes)
        self.slot: SlotAttention | None = None
        if settings.use_slots:
            shared = settings.model_dump(include=set(config.Slots.model_fields))
            self.slot = SlotAttention(config.Slot(**shared, scale=slot_scale), **sizes)

    def reseed(self, seed: int) -> None:
        """Start the noise of the slots anew."""
        if self.slot is not None:
            self.slot.reseed(seed)

    def generators(self) -> list[torch.Generator]:
        """Return the generator of the slots' noise."""
        return [] if self.slot is None else self.slot.generators()


class ParallelFusion(Fusion):
    """Both penalties, mixed by learned weights; see the module's text for the formula."""

    def __init__(self, settings: config.Parallel, **sizes: Unpack[Sizes]) -> None:
        super().__init__(settings, slot_scale=settings.slot_scale, **sizes)
        if self.slot is not None:
            self.logits = nn.Parameter(torch.zeros(2))

    def penalty(self, z: Tensor, y: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the penalty; logs both penalties, what they log, and the share m_2 of the slots'.

        `classes` are the gated branch's, which include the slots'; `active` is mixed like R.
        """
        value, notes = self.gated.penalty(z, y)
        if self.slot is None:
            return value, notes
        slot_value, slot_notes = self.slot.penalty(z, y)
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
    """Slot variances as a residual of the gated ones; see the module's text for the formula."""

    def __init__(self, settings: config.Shortcut, **sizes: Unpack[Sizes]) -> None:
        super().__init__(settings, **sizes)
        if self.slot is not None:
            self.a = nn.Parameter(torch.tensor(settings.residual))

    def penalty(self, z: Tensor, y: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the penalty; logs what both spreads log, and the strength tanh(a)."""
        groups = self.gated.rows(z, y)
        v, notes = self.gated.spread(z, groups)
        if self.slot is not None:
            residual, slot_notes = self._residual(self.slot, z, y)
            # Both branches put larger classes first: the slots' rows are the first of gated's.
            v = v + F.pad(residual, (0, 0, 0, len(v) - len(residual)))
            notes |= slot_notes
        value, hinges = self.gated.hinge(v, groups)
        return value, notes | hinges

    def _residual(
        self, slot: SlotAttention, z: Tensor, y: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Return `tanh(a) sum_k w_k v_k` of the classes with slots, (R, D), 0 in unused rows."""
        found, notes = slot.spread(z, slot.rows(z, y))
        strength = self.a.tanh()
        pooled = torch.einsum("rs,rsd->rd", found.weights, found.variance)
        return strength * pooled, notes | {"strength": strength.detach()}
