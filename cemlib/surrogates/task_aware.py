"""`task_aware`: `logdet` with a metric that spares the directions that the server uses.

Source: this project. The server's answer depends on few directions of z; spread along the others
leaks without any use. With J = d logits / d z, (C, D), centred over the classes (a common shift of
all logits changes no answer), F = mean J^T J over training images, scaled to trace D, and

    M = kappa (F + kappa I)^-1,   near 0 along directions used much, near 1 along the others,

the Mahalanobis pull of `logdet` becomes

    dR/dz_i = M^1/2 P_c M^1/2 (z_i - mu_c) / (B D),   P_c = (Sigma_ref + sigma^2 I)^-1

F and M are computed at the start of every epoch, P_c then and every `refresh` steps. The value is a
function with this gradient, the tangent of log det at Sigma_ref,

    R = (1/D) sum_c p_c 1/2 (log det(I + Sigma_ref / sigma^2)
                             + tr(P_c (M^1/2 Sigma_c M^1/2 - Sigma_ref)))

D R bounds the information in M^1/2 z + noise beyond the class, but not that in the released
z + noise: the spared directions are left out by design. Before the first F, and if no logit depends
on z, M is I.
"""

from typing import ClassVar, Unpack

import torch
from torch import Tensor

from cemlib.config import surrogates as config
from cemlib.surrogates.base import Sizes
from cemlib.surrogates.logdet import LogDet, trace_of_product
from cemlib.surrogates.tiles import Tiles


class TaskAware(LogDet):
    """The Gaussian bound with the metric M, which is not in checkpoints: every epoch renews it."""

    settings: config.TaskAware
    metric: ClassVar[str | None] = "task"
    root: Tensor
    spared: Tensor
    effective_rank: Tensor

    def __init__(self, settings: config.TaskAware, **sizes: Unpack[Sizes]) -> None:
        super().__init__(settings, **sizes)
        self.metric_samples = settings.samples
        unit = torch.eye(self.dim, dtype=torch.float64)
        self.register_buffer("root", unit, persistent=False)
        self.register_buffer("spared", unit.new_zeros(()), persistent=False)
        self.register_buffer("effective_rank", unit.new_zeros(()), persistent=False)

    def learn(self, metric: Tensor) -> None:
        """Use a new F (D, D), of any scale, from the next factorisation on."""
        strengths, directions = torch.linalg.eigh(metric.to(self.root))
        strengths = strengths.clamp_min(0)
        total = strengths.sum()
        scaled = strengths * torch.where(total > 0, self.dim / total, 0.0)
        kept = 1 / (1 + scaled / self.settings.kappa)
        self.root.copy_((directions * kept.sqrt()) @ directions.mT)
        self.spared.copy_(1 - kept.mean())
        self.effective_rank.copy_(torch.where(total > 0, total / strengths[-1], 0.0))

    def _factorise(self) -> None:
        """Compute the tangent of log det, as a function of M^1/2 Sigma M^1/2."""
        super()._factorise()
        # tr(P M^1/2 Sigma M^1/2) = tr(M^1/2 P M^1/2 Sigma), so only the plain Sigma is needed.
        self.precisions.copy_(self.root @ self.precisions @ self.root)
        spread = trace_of_product(self.precisions, self.covariances)
        self.log_dets.add_(spread - self.traces)
        self.traces.copy_(spread)

    def _notes(self, tiles: Tiles, stale: Tensor) -> dict[str, Tensor]:
        metric = {"spared": self.spared.clone(), "effective_rank": self.effective_rank.clone()}
        return super()._notes(tiles, stale) | metric
