"""The two attention networks of the slot surrogate: slots of a class, and tokens refined by them.

Sources: Locatello et al., "Object-Centric Learning with Slot Attention", NeurIPS 2020, algorithm 1,
for all classes of a batch at once (a token meets only the slots of its own class); and the
multi-head attention of Vaswani et al., "Attention Is All You Need", 2017.

Shapes: tokens (B, D), slots (R, S, D) with one row for each class of `Groups`.
"""

import torch
from torch import Tensor, nn

from cemlib.surrogates.groups import Groups, attention_width, softmax, weighted_sum


def residual_network(dim: int) -> nn.Sequential:
    """Return two linear layers with a ReLU between them, of widths D - h - D."""
    width = attention_width(dim)
    return nn.Sequential(nn.Linear(dim, width), nn.ReLU(), nn.Linear(width, dim))


class SlotRounds(nn.Module):
    """Slot attention: slots of `dim` dimensions compete for tokens in `iterations` rounds."""

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
        """Return slots (R, S, D) for tokens (B, D), from standard normal noise (R, S, D)."""
        key, value = self.key(tokens), self.value(tokens)
        slots = self.mean + self.log_std.exp() * noise
        for _ in range(self.iterations):
            slots = self._round(slots, key, value, groups)
        return slots

    def _round(self, slots: Tensor, key: Tensor, value: Tensor, groups: Groups) -> Tensor:
        query = self.query(self.norm_slots(slots))
        scores = own_products(key, query, groups) / key.shape[-1] ** 0.5
        # This is the softmax over the slots, divided by its sum over the tokens of the class. As a
        # second softmax, of logarithms, no sum can underflow to 0.
        weights = softmax(scores.log_softmax(-1), groups)
        taken = weighted_sum(value, weights, groups)
        slots = self.update(taken.flatten(0, 1), slots.flatten(0, 1)).view_as(slots)
        refined: Tensor = slots + self.residual(self.norm_residual(slots))
        return refined


class CrossRefinement(nn.Module):
    """Refines tokens: `T^ = x + tanh(a1) CrossAttn(x, S)`, then `T~ = T^ + tanh(a2) MLP(T^)`.

    `heads` divides the number of dimensions; `strength` is the initial value of a1 and a2.
    """

    def __init__(self, dim: int, heads: int, strength: float) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.network = residual_network(dim)
        self.a1 = nn.Parameter(torch.tensor(float(strength)))
        self.a2 = nn.Parameter(torch.tensor(float(strength)))

    def forward(self, tokens: Tensor, slots: Tensor, groups: Groups) -> Tensor:
        """Refine tokens (B, D); the results for tokens without a row are not used."""
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
    """Return the inner products of each token with the slots of its class, (B, S)."""
    products = torch.einsum("bd,rsd->brs", tokens, slots)
    return (products * groups.member.unsqueeze(-1)).sum(1)
