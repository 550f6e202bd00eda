"""`slot`: a gated hinge on the spread of a class around slots that compete for its samples.

Sources: Locatello et al., "Object-Centric Learning with Slot Attention", NeurIPS 2020, algorithm 1,
for all classes of a batch at once (a token meets only the slots of its own class), with a gated
multi-head cross-attention (Vaswani et al., "Attention Is All You Need", 2017). For each class with
at least three samples (tokens) in the batch, x = LayerNorm(z) without affine part, S slots s_k
after T rounds of slot attention (`SlotRounds`) and refined tokens T~ (`CrossRefinement`):

    r = softmax_k(beta cos(x_m, s_k)),   m_k = sum_m r_mk
    mu_k, v_k = r-weighted mean and variance of T~,   v >= 1e-6
    g = sigmoid(MLP(LN(log v))),   g_snr = sigmoid(b_snr (v / (mu^2 + eps) - t_snr))
    h = softplus(b_s (log v - log tau - m0)) / (b_s + eps),   b_s = softplus(its parameter)
    w_k proportional to (m_k / M)^p, p = `sharpening`
    l_c = g_c mean_d sum_k w_k g g_snr h,   g_c = sigmoid(a_c (p_c - b_c)),   p_c = m_c / B
    R = s sum_c p_c l_c / sum_c p_c,   tau = max(rho sigma^2, 1e-8) + 1e-6,   eps = 1e-6

beta, b_s, m0, b_snr, t_snr, a_c and b_c are learned. g, g_snr and h act per slot and dimension;
with `snr_gate: false` g_snr is 1.
"""

import math
from typing import ClassVar, Unpack

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cemlib.config import surrogates as config
from cemlib.surrogates.base import Sizes, Surrogate
from cemlib.surrogates.groups import VARIANCE_FLOOR, Groups, attention_width, ceiling, group

EPS = 1e-6
SMALLEST_CLASS = 3
Moments = tuple[Tensor, Tensor, Tensor]


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
        weights = groups.softmax(scores.log_softmax(-1))
        taken = groups.weighted_sum(value, weights)
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


class DispersionGate(nn.Module):
    """The learned hinge `g g_snr h` on the variances of slots; g_snr is 1 without a threshold."""

    def __init__(self, dim: int, tau: float, margin: float, snr_threshold: float | None) -> None:
        super().__init__()
        self.log_tau = math.log(tau)
        self.norm = nn.LayerNorm(dim)
        self.network = residual_network(dim)
        self.raw_b_s = nn.Parameter(torch.tensor(math.log(math.e - 1)))  # softplus gives 1
        self.m0 = nn.Parameter(torch.tensor(float(margin)))
        self.snr_gated = snr_threshold is not None
        if snr_threshold is not None:
            self.b_snr = nn.Parameter(torch.tensor(1.0))
            self.t_snr = nn.Parameter(torch.tensor(float(snr_threshold)))

    def forward(self, mean: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return gate `g g_snr`, hinge h, and excess `log v - log tau - m0`, each (R, S, D)."""
        gate = self.network(self.norm(v.log())).sigmoid()
        if self.snr_gated:
            snr = v / (mean.square() + EPS)
            gate = gate * (self.b_snr * (snr - self.t_snr)).sigmoid()
        b_s = F.softplus(self.raw_b_s)
        excess = v.log() - self.log_tau - self.m0
        return gate, F.softplus(b_s * excess) / (b_s + EPS), excess


class SlotAttention(Surrogate):
    """The slot surrogate; raises ValueError if `heads` does not divide D.

    The slots start from noise of the surrogate's own generator, which `reseed` restarts.
    """

    settings: config.Slot
    start_epoch: ClassVar[int] = 4

    def __init__(self, settings: config.Slot, **sizes: Unpack[Sizes]) -> None:
        super().__init__(settings, **sizes)
        dim, heads = self.dim, settings.heads
        if dim % heads:
            raise ValueError(f"heads is {heads}; it must divide the {dim} feature dimensions")
        self.rounds = SlotRounds(dim, settings.iterations)
        self.refine = CrossRefinement(dim, heads, settings.refinement)
        threshold = settings.snr_threshold if settings.snr_gate else None
        tau = ceiling(self.noise_std, settings.var_threshold)
        self.gate = DispersionGate(dim, tau, settings.margin, threshold)
        self.beta = nn.Parameter(torch.tensor(settings.beta))
        self.a_c = nn.Parameter(torch.tensor(10.0))
        self.b_c = nn.Parameter(torch.tensor(0.0))
        self._generator: torch.Generator | None = None
        self.reseed(0)

    def reseed(self, seed: int) -> None:
        """Restart the noise of the slots."""
        self._seed = seed
        if self._generator is not None:
            self._generator.manual_seed(seed)

    def generators(self) -> list[torch.Generator]:
        """Return the generator of the slots' noise, if it exists yet."""
        return [] if self._generator is None else [self._generator]

    def penalty(self, z: Tensor, y: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the penalty; logs the mean gates and the scalars of `spread`."""
        (weights, mean, v), groups, notes = self.spread(z, y)
        gate, hinge, excess = self.gate(mean, v.clamp_min(VARIANCE_FLOOR))
        each = (weights.unsqueeze(-1) * gate * hinge).sum(1).mean(-1)  # (R,)
        class_gate = (self.a_c * (groups.sizes / len(y) - self.b_c)).sigmoid()
        value = self.settings.scale * groups.weighted_mean(class_gate * each)
        return value, notes | {
            "classes": groups.valid.sum(),
            "active": groups.mean((excess > 0).to(z).mean((1, 2))),
            "gate": groups.mean(gate.detach().mean((1, 2))),
            "class_gate": groups.mean(class_gate.detach()),
        }

    def spread(self, z: Tensor, y: Tensor) -> tuple[Moments, Groups, dict[str, Tensor]]:
        """Return weights w_k (R, S), means and variances (R, S, D), the rows' classes, and scalars.

        The weights are 0 in unused rows, and the variances have no floor.
        """
        groups = group(y, self.num_classes, smallest=SMALLEST_CLASS, dtype=z.dtype)
        x = F.layer_norm(z, z.shape[-1:])
        found = self.rounds(x, self._noise(len(groups.sizes), z), groups)
        cosines = own_products(F.normalize(x, dim=-1), F.normalize(found, dim=-1), groups)
        affinity = (self.beta * cosines).log_softmax(-1)  # log r, (B, S)
        masses = groups.total(affinity.exp()) / groups.sizes.clamp_min(1).unsqueeze(-1)
        tokens = self.refine(x, found, groups)
        mean, v = groups.weighted_moments(tokens, groups.softmax(affinity))
        entropy = torch.special.entr(masses.detach()).sum(-1)
        used = masses > 0  # in unused rows the derivative of a power below 1 is infinite
        powers = torch.where(used, masses, 1.0).pow(self.settings.sharpening) * used
        weights = powers / powers.sum(-1, keepdim=True).clamp_min(torch.finfo(powers.dtype).tiny)
        return (weights, mean, v), groups, {"slot_entropy": groups.mean(entropy)}

    def _noise(self, rows: int, like: Tensor) -> Tensor:
        if self._generator is None or self._generator.device != like.device:
            self._generator = torch.Generator(like.device).manual_seed(self._seed)
        shape = rows, self.settings.slots, self.dim
        return torch.randn(shape, generator=self._generator, dtype=like.dtype, device=like.device)
