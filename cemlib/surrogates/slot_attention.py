"""Slots of a class and tokens refined by them: the two attention networks of the slot surrogate.

Source: Locatello et al., "Object-Centric Learning with Slot Attention", NeurIPS 2020, algorithm 1,
run for all classes of a batch at once (a token only meets the slots of its own class); multi-head
attention of Vaswani et al., "Attention Is All You Need", 2017, for the tokens' queries.

Shapes: tokens (B, D), slots (R, S, D) with a row for each class that `Groups` holds.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cemlib.surrogates.moments import Groups, attention_width, weighted_sum


def residual_network(dim: int) -> nn.Sequential:
    """Make two linear layers with a ReLU between them, D - h - D."""
    width = attention_width(dim)
    return nn.Sequential(nn.Linear(dim, width), nn.ReLU(), nn.Linear(width, dim))


class SlotRounds(nn.Module):
    """Slot attention: `iterations` rounds of competition of the slots for the tokens.

    Args:
        dim: number of dimensions D of tokens and slots.
        iterations: rounds T.
    """

    def __init__(self, dim: int, iterations: int) -> None:
        super().__init__()
        self.iterations = iterations
        self.mean = nn.Parameter(torch.empty(1, dim))
        self.log_std = nn.Parameter(torch.empty(1, dim))
        nn.init.xavier_uniform_(self.mean)
        nn.init.xavier_uniform_(self.log_std)
        self.query = nn.Linear(dim, dim, bias=False)
        self.key = nn.Linear(dim, dim, bias=False)
        self.value = nn.Linear(dim, dim, bias=False)
        self.update = nn.GRUCell(dim, dim)
        self.residual = residual_network(dim)
        self.norm_slots = nn.LayerNorm(dim)
        self.norm_residual = nn.LayerNorm(dim)

    def forward(self, tokens: Tensor, noise: Tensor, groups: Groups) -> Tensor:
        """Return slots (R, S, D) of tokens (B, D), started from standard normal noise (R, S, D)."""
        key, value = self.key(tokens), self.value(tokens)
        slots = self.mean + self.log_std.exp() * noise
        for _ in range(self.iterations):
            slots = self._round(slots, key, value, groups)
        return slots

    def _round(self, slots: Tensor, key: Tensor, value: Tensor, groups: Groups) -> Tensor:
        query = self.query(self.norm_slots(slots))
        scores = own_products(key, query, groups) / key.shape[-1] ** 0.5
        # Softmax over the slots, then divided by its sum over the tokens of the class: in
        # logarithms the division is a second softmax, and no sum can underflow to 0.
        weights = groups.softmax(scores.log_softmax(-1))
        taken = weighted_sum(value, weights, groups)
        slots = self.update(taken.flatten(0, 1), slots.flatten(0, 1)).view_as(slots)
        refined: Tensor = slots + self.residual(self.norm_residual(slots))
        return refined


class CrossRefinement(nn.Module):
    """Tokens query the slots of their class: `T^ = x + tanh(a1) CrossAttn(x, S)`, then a network.

    Args:
        dim: number of dimensions D.
        heads: attention heads; divides D.
        strength: start value of a1 and a2.
    """

    def __init__(self, dim: int, heads: int, strength: float) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.network = residual_network(dim)
        self.a1 = nn.Parameter(torch.tensor(float(strength)))
        self.a2 = nn.Parameter(torch.tensor(float(strength)))

    def forward(self, tokens: Tensor, slots: Tensor, groups: Groups) -> Tensor:
        """Refine tokens (B, D); those without a row query all slots and are used nowhere."""
        foreign = (groups.member == 0) & groups.inside.unsqueeze(1)  # (B, R)
        foreign = foreign.repeat_interleave(slots.shape[1], dim=1)  # (B, R S)
        known = slots.flatten(0, 1).unsqueeze(0)
        answer, _ = self.attention(
            tokens.unsqueeze(0), known, known, attn_mask=foreign, need_weights=False
        )
        tokens = tokens + self.a1.tanh() * answer.squeeze(0)
        refined: Tensor = tokens + self.a2.tanh() * self.network(tokens)
        return refined


def own_products(tokens: Tensor, slots: Tensor, groups: Groups) -> Tensor:
    """Multiply each token with the slots of its class: (B, D), (R, S, D) to (B, S)."""
    return groups.own(torch.einsum("bd,rsd->brs", tokens, slots))


def own_cosines(tokens: Tensor, slots: Tensor, groups: Groups) -> Tensor:
    """Return the cosines of each token with its class's slots: (B, D), (R, S, D) to (B, S)."""
    return own_products(F.normalize(tokens, dim=-1), F.normalize(slots, dim=-1), groups)
