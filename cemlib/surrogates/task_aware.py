"""`task_aware`: `logdet` with a metric that spares the directions which the server uses.

Source: this project. The server's answer depends on few directions of z; spread along the others
is leakage for nothing. With J = d logits / d z, (C, D), centred over the classes (a common shift of
all logits changes no answer), F = mean J^T J over training images, scaled to trace D, and

    M = kappa (F + kappa I)^-1,   near 0 along directions used much, near 1 along the others,

the Mahalanobis pull of `logdet` becomes

    dR/dz_i = M^1/2 P_c M^1/2 (z_i - mu_c) / (B D),   P_c = (Sigma_ref + sigma^2 I)^-1

F and M are renewed at the start of every epoch, P_c then and every `refresh` steps. All moments,
their average, `shrinkage` and factors are those of `logdet`.

The value is what has this gradient. log det is concave, so its tangent at Sigma_ref is above it
everywhere, at M^1/2 Sigma M^1/2 too:

    log det(I + M^1/2 Sigma M^1/2 / sigma^2)
        <= log det(I + Sigma_ref / sigma^2) + tr(P (M^1/2 Sigma M^1/2 - Sigma_ref))

R is (1/D) sum_c p_c 1/2 of the right-hand side. So it bounds, per dimension, what M^1/2 z + noise
tells beyond the class, for whatever M. It is no bound on what the released z + noise tells: what
lies along the spared directions is left out by design. It does not touch the left-hand side, as it
does for `logdet` after a refresh, because P belongs to Sigma_ref and not to M^1/2 Sigma_ref M^1/2.
The tangent there would touch, with another pull: M^1/2 (M^1/2 Sigma M^1/2 + sigma^2 I)^-1 M^1/2 is
P again wherever what M leaves of the spread is well above sigma^2, and spares nothing there. The
pull above is the one chosen here, and the only one.

kappa to infinity is `logdet`. So is F = I but for the factor kappa / (1 + kappa) of the pull.
Without any F, and where no logit depends on z, M is I.

It assumes that what the server uses is worth its leakage, that J at training images with one draw
of the release each tells what it uses, and that this changes little within an epoch.

How it fails: what is spared leaks. The spread along used directions is what tells the images of a
class apart for the server, often what tells most of the image, and the encoder can move image
detail there, as there the pull is weakest: compare `val_leakage_nats`, not R. u^T M^1/2 P M^1/2 u
is at most u^T P u for every eigenvector u of F, so the pull per distance never grows along those;
elsewhere it can, where M and P have other eigenvectors: a direction of wide spread, thus of a weak
pull, is mixed with a narrow one. A server that uses all directions alike gives M a constant factor:
`effective_rank` near D. C backward passes through the head for every sample of F: many classes
want fewer samples.
"""

from typing import ClassVar, Unpack

import torch
from torch import Tensor

from cemlib.config import surrogates as config
from cemlib.surrogates.base import Sizes
from cemlib.surrogates.logdet import LogDet, trace_of_product
from cemlib.surrogates.tiles import Tiles


class TaskAware(LogDet):
    """Class-conditional Gaussian bound that spares what the server uses; see the module's text.

    The metric is no part of a checkpoint: `learn` comes anew with every epoch.

    Args:
        settings: its section of the configuration.
        sizes: those of `Surrogate`; the noise above 0.
    """

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
        """Take F, of any scale, (D, D); it acts from the next factorisation on."""
        self._check_metric(metric)
        strengths, directions = torch.linalg.eigh(metric.to(self.root))
        strengths = strengths.clamp_min(0)
        total = strengths.sum()
        scaled = strengths * torch.where(total > 0, self.dim / total, 0.0)
        kept = 1 / (1 + scaled / self.settings.kappa)
        self.root.copy_((directions * kept.sqrt()) @ directions.mT)
        self.spared.copy_(1 - kept.mean())
        self.effective_rank.copy_(torch.where(total > 0, total / strengths[-1], 0.0))

    def _factorise(self) -> None:
        """Take the tangent of log det at the running covariances, along M^1/2 Sigma M^1/2."""
        super()._factorise()
        # tr(P M^1/2 Sigma M^1/2) = tr(M^1/2 P M^1/2 Sigma): again only the plain Sigma is needed.
        self.precisions.copy_(self.root @ self.precisions @ self.root)
        spread = trace_of_product(self.precisions, self.covariances)
        self.log_dets.add_(spread - self.traces)
        self.traces.copy_(spread)

    def _notes(self, tiles: Tiles, stale: Tensor) -> dict[str, Tensor]:
        metric = {"spared": self.spared.clone(), "effective_rank": self.effective_rank.clone()}
        return super()._notes(tiles, stale) | metric
