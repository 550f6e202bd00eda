"""`gated`: a hinge on the spread of a class under gated attention pooling.

Source: the attention of Ilse, Tomczak and Welling, "Attention-based Deep Multiple Instance
Learning", ICML 2018, equation 9, which weights the samples of a class here. For each class c with
m_c >= 2 samples in the batch, with x = LayerNorm(z) without affine part (or x = z, `moments: raw`):

    alpha = softmax_i(w^T (tanh(V x_i) * sigmoid(U x_i)))
    mu = sum alpha x,   v = max(sum alpha (x - mu)^2, 1e-6)     per dimension, or its trace
    L_c = mean_d relu(log(v_d + 1e-6) - log tau)                gate "log"
    L_c = mean_d v_d                                            gate "linear"
    R = s sum_c p_c L_c / sum_c p_c,   p_c = m_c / B,   tau = max(rho sigma^2, 1e-8) + 1e-6
"""

import math
from typing import ClassVar, Unpack

import torch.nn.functional as F
from torch import Tensor, nn

from cemlib.config import surrogates as config
from cemlib.surrogates.base import Sizes, Surrogate
from cemlib.surrogates.groups import VARIANCE_FLOOR, Groups, attention_width, ceiling, group

LOG_OFFSET = 1e-6
SMALLEST_CLASS = 2


def attention_scores(x: Tensor, V: Tensor, U: Tensor, w: Tensor) -> Tensor:
    """Return the scores (B, 1) before the softmax, from x (B, D), V and U (h, D) and w (1, h)."""
    return F.linear(F.linear(x, V).tanh() * F.linear(x, U).sigmoid(), w)


def dispersion_penalty(v: Tensor, tau: float, gate: str) -> Tensor:
    """Return the hinge on variances above tau, or with gate "linear" the variances themselves."""
    if gate == "linear":
        return v
    return ((v + LOG_OFFSET).log() - math.log(tau)).relu()


def view(weight: Tensor, surrogate_grad: str) -> Tensor:
    """Return the weight with its gradient kept, stopped, or reversed."""
    if surrogate_grad == "descend":
        return weight
    fixed = weight.detach()
    return fixed if surrogate_grad == "stop" else 2 * fixed - weight


class GatedAttention(Surrogate):
    """The gated attention surrogate; the module's docstring has the formula."""

    settings: config.Attention
    start_epoch: ClassVar[int] = 6

    def __init__(self, settings: config.Attention, **sizes: Unpack[Sizes]) -> None:
        super().__init__(settings, **sizes)
        width = settings.hidden or attention_width(self.dim)
        self.V = nn.Linear(self.dim, width, bias=False)
        self.U = nn.Linear(self.dim, width, bias=False)
        self.w = nn.Linear(width, 1, bias=False)

    def penalty(self, z: Tensor, y: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the penalty; logs the scalars of `spread` and `hinge`."""
        v, groups, notes = self.spread(z, y)
        value, hinges = self.hinge(v, groups)
        return value, notes | hinges

    def spread(self, z: Tensor, y: Tensor) -> tuple[Tensor, Groups, dict[str, Tensor]]:
        """Return the attention-weighted variances (R, D), the classes of the rows, and scalars."""
        groups = group(y, self.num_classes, smallest=SMALLEST_CLASS, dtype=z.dtype)
        x = F.layer_norm(z, z.shape[-1:]) if self.settings.moments == "layernorm" else z
        how = self.settings.surrogate_grad
        weights = (view(part.weight, how) for part in (self.V, self.U, self.w))
        alpha = groups.softmax(attention_scores(x, *weights))
        size = groups.mean(effective_sample_size(alpha, groups))
        _, v = groups.weighted_moments(x, alpha)
        return v.squeeze(1), groups, {"effective_sample_size": size}

    def hinge(self, v: Tensor, groups: Groups) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the penalty of variances (R, D); logs `classes` and `active`."""
        if self.settings.variance == "trace":
            v = v.sum(-1, keepdim=True)
        tau = ceiling(self.noise_std, self.settings.var_threshold)
        each = dispersion_penalty(v.clamp_min(VARIANCE_FLOOR), tau, self.settings.gate)
        return self.settings.scale * groups.weighted_mean(each.mean(-1)), {
            "classes": groups.valid.sum(),
            "active": groups.mean((each > 0).to(v).mean(-1)),
        }


def effective_sample_size(alpha: Tensor, groups: Groups) -> Tensor:
    """Return `1 / sum alpha^2` of each row, (R,): from 1 to its size, 0 for an unused row."""
    squares = groups.total(alpha.detach().square()).squeeze(-1)
    return groups.valid / squares.clamp_min(VARIANCE_FLOOR)
