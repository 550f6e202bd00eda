"""`gated`: hinge on the spread of a class under gated attention pooling.

Source: the attention of Ilse, Tomczak and Welling, "Attention-based Deep Multiple Instance
Learning", ICML 2018, equation 9, here weighting the samples of a class. Per class with at least two
samples in the batch, with x = LayerNorm(z) without affine part (or x = z, `moments: raw`):

    alpha = softmax_i(w^T (tanh(V x_i) * sigmoid(U x_i)))
    mu = sum alpha x,   v = max(sum alpha (x - mu)^2, 1e-6)     per dimension, or its trace
    L_c = mean_d relu(log(v_d + 1e-6) - log tau)                gate "log"
    L_c = mean_d v_d                                            gate "linear"
    R = s sum_c p_c L_c / sum_c p_c,   p_c = m_c / B,   tau = max(rho sigma^2, 1e-8) + 1e-6

How it fails: with `layernorm` the moments do not see the released scale. Scaling all features
leaves R unchanged, the hinge is always active, and sigma and tau shift R without any influence on
the gradient. With `surrogate_grad: descend` attention can put all its weight on one sample, and v
falls without the features moving: watch `effective_sample_size` (1 / sum alpha^2). `stop` keeps the
first attention, `ascend` trains it to find the widest spread (a min-max).
"""

import math
from typing import ClassVar, Literal, get_args

import torch.nn.functional as F
from torch import Tensor, nn

from cemlib.surrogates.base import Surrogate, above_zero, at_least, one_of
from cemlib.surrogates.moments import (
    VARIANCE_FLOOR,
    Gate,
    Groups,
    attention_width,
    ceiling,
    group,
    weighted_moments,
)

LOG_OFFSET = 1e-6
SMALLEST_CLASS = 2
Moments = Literal["layernorm", "raw"]
Variance = Literal["diagonal", "trace"]
SurrogateGrad = Literal["descend", "stop", "ascend"]


def attention_scores(x: Tensor, V: Tensor, U: Tensor, w: Tensor) -> Tensor:
    """Gated attention before the softmax: x (B, D), V and U (h, D), w (1, h) to (B, 1)."""
    return F.linear(F.linear(x, V).tanh() * F.linear(x, U).sigmoid(), w)


def dispersion_penalty(v: Tensor, tau: float, gate: Gate) -> Tensor:
    """Penalty of each variance, same shape: above the ceiling tau, or the variance itself."""
    if gate == "linear":
        return v
    return ((v + LOG_OFFSET).log() - math.log(tau)).relu()


def view(weight: Tensor, surrogate_grad: SurrogateGrad) -> Tensor:
    """The weight, passing its gradient on, stopping it, or reversing it."""
    if surrogate_grad == "descend":
        return weight
    fixed = weight.detach()
    return fixed if surrogate_grad == "stop" else 2 * fixed - weight


class GatedAttention(Surrogate):
    """Gated attention surrogate; see the module's text for the formula.

    Args:
        dim: number of feature dimensions D.
        num_classes: number of classes C.
        noise_std: standard deviation sigma of the released noise.
        moments: features whose moments are taken; raw is the released scale.
        variance: one variance per dimension, or the squared norm.
        gate: form of the hinge.
        scale: constant factor s.
        hidden: width h of the attention; None is min(512, max(64, D // 4)).
        surrogate_grad: how the attention trains: with, without or against the penalty.
        var_threshold: rho.
    """

    start_epoch: ClassVar[int] = 6

    def __init__(
        self,
        *,
        dim: int,
        num_classes: int,
        noise_std: float,
        moments: Moments = "layernorm",
        variance: Variance = "diagonal",
        gate: Gate = "log",
        scale: float = 0.1,
        hidden: int | None = None,
        surrogate_grad: SurrogateGrad = "descend",
        var_threshold: float = 0.125,
    ) -> None:
        super().__init__(
            dim=dim, num_classes=num_classes, noise_std=noise_std, var_threshold=var_threshold
        )
        one_of("moments", moments, get_args(Moments))
        one_of("variance", variance, get_args(Variance))
        one_of("gate", gate, get_args(Gate))
        one_of("surrogate_grad", surrogate_grad, get_args(SurrogateGrad))
        above_zero("scale", scale)
        width = attention_width(dim) if hidden is None else hidden
        at_least("hidden", width, 1)
        self.moments, self.variance, self.gate = moments, variance, gate
        self.scale, self.surrogate_grad = scale, surrogate_grad
        self.V = nn.Linear(dim, width, bias=False)
        self.U = nn.Linear(dim, width, bias=False)
        self.w = nn.Linear(width, 1, bias=False)

    def penalty(self, z: Tensor, y: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """See the base class; logs what `spread` and `hinge` log."""
        groups = self.rows(z, y)
        v, notes = self.spread(z, groups)
        value, hinges = self.hinge(v, groups)
        return value, notes | hinges

    def rows(self, z: Tensor, y: Tensor) -> Groups:
        """The classes with enough samples, larger ones first."""
        return group(y, self.num_classes, smallest=SMALLEST_CLASS, dtype=z.dtype)

    def spread(self, z: Tensor, groups: Groups) -> tuple[Tensor, dict[str, Tensor]]:
        """Attention-weighted variance per row and dimension, (R, D), before trace and floor.

        Logs the effective sample size, mean over classes.
        """
        x = F.layer_norm(z, z.shape[-1:]) if self.moments == "layernorm" else z
        weights = (view(part.weight, self.surrogate_grad) for part in (self.V, self.U, self.w))
        alpha = groups.softmax(attention_scores(x, *weights))
        size = groups.mean(effective_sample_size(alpha, groups))
        return weighted_moments(x, alpha, groups)[1].squeeze(1), {"effective_sample_size": size}

    def hinge(self, v: Tensor, groups: Groups) -> tuple[Tensor, dict[str, Tensor]]:
        """Penalty of variances (R, D), a scalar; logs the classes and the active hinges."""
        if self.variance == "trace":
            v = v.sum(-1, keepdim=True)
        tau = ceiling(self.noise_std, self.var_threshold)
        each = dispersion_penalty(v.clamp_min(VARIANCE_FLOOR), tau, self.gate)
        return self.scale * groups.weighted_mean(each.mean(-1)), {
            "classes": groups.valid.sum(),
            "active": groups.mean((each > 0).to(v).mean(-1)),
        }


def effective_sample_size(alpha: Tensor, groups: Groups) -> Tensor:
    """`1 / sum alpha^2` of each row, between 1 and its size: alpha (B, 1) to (R,), 0 unused."""
    squares = groups.total(alpha.detach().square()).squeeze(-1)
    return groups.valid / squares.clamp_min(VARIANCE_FLOOR)
