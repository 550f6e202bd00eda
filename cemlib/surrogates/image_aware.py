"""`image_aware`: `logdet` with its pull spent on the directions that show the image.

Source: this project. An attacker is scored in pixels, and directions of z differ in how much of
them they show: nats count one that shows the brightness as much as one that shows faint texture.
Let W, (D, P), be the weights of the best linear reconstruction of the pixels from one release, and

    G = W W^T / P,   so that d^T G d is the mean squared change of a pixel when z moves by d

The Mahalanobis pull P_c of `logdet` on the features of a class is in part replaced by G, at the
same size:

    dR/dz_i = Q_c (z_i - mu_c) / (B D),   P_c = (Sigma_ref + sigma^2 I)^-1
    Q_c = (1 - a) P_c + a s_c G,   s_c = tr(P_c Sigma_ref) / tr(G Sigma_ref),   a = `share`

so that tr(Q_c Sigma_ref) = tr(P_c Sigma_ref): the whole pull is that of `logdet`, large while much
of a class's spread is above the noise, and only its distribution over the directions differs. G is
renewed at the start of every epoch by ridge regression at `samples` training images, each released
once; P_c and s_c then and every `refresh` steps. Moments, their average, `shrinkage` and factors
are those of `logdet`, and a = 0 is `logdet`. The scale of G is of no influence.

R is (1/D) sum_c p_c 1/2 [log det(I + Sigma_ref / sigma^2) + tr(Q_c (Sigma_c - Sigma_ref))]: the
bound of `logdet` at every renewal, and between them what has the gradient above. It is no bound
then, because Q_c is no tangent: compare `val_leakage_nats`.

How it differs from an adversary: the encoder is not asked to raise the error of W, which it can do
by writing the same in another form, but to move less along what W reads.

How it fails: W is linear. What only a curved decoder reads is pulled no more than by (1 - a) P_c
until the encoder makes it linearly readable: compare the decoder's error with that of the linear
attack. Between renewals the encoder can turn detail into directions that W does not read. With few
samples against features, W is the ridge's as much as the data's.
"""

from typing import ClassVar, Unpack

import torch
from torch import Tensor

from cemlib.config import surrogates as config
from cemlib.surrogates.base import Sizes
from cemlib.surrogates.logdet import LogDet, trace_of_product
from cemlib.surrogates.tiles import Tiles

NO_SPREAD = 1e-9  # along G, as a fraction of what the noise has there


class ImageAware(LogDet):
    """Gaussian bound whose pull goes where the image shows; see the module's text.

    G is no part of a checkpoint: `learn` comes anew with every epoch.

    Args:
        settings: its section of the configuration.
        sizes: those of `Surrogate`; the noise above 0.
    """

    settings: config.ImageAware
    metric: ClassVar[str | None] = "image"
    shown: Tensor
    image_rank: Tensor

    def __init__(self, settings: config.ImageAware, **sizes: Unpack[Sizes]) -> None:
        super().__init__(settings, **sizes)
        self.metric_samples = settings.samples
        nought = torch.zeros(self.dim, self.dim, dtype=torch.float64)
        self.register_buffer("shown", nought, persistent=False)
        self.register_buffer("image_rank", nought[0, 0].clone(), persistent=False)

    def learn(self, metric: Tensor) -> None:
        """Take G, of any scale, (D, D); it acts from the next factorisation on."""
        self._check_metric(metric)
        self.shown.copy_(metric)
        largest = torch.linalg.eigvalsh(self.shown)[-1]
        rank = self.shown.trace() / largest.clamp_min(torch.finfo(largest.dtype).tiny)
        self.image_rank.copy_(torch.where(largest > 0, rank, 0.0))

    def _factorise(self) -> None:
        """Take the tangent of log det, and spend a share of its pull along G."""
        super()._factorise()
        along = trace_of_product(self.shown.expand_as(self.covariances), self.covariances)
        # A class without rows yet, or with spread by rounding alone, keeps the pull of `logdet`.
        spread = along > NO_SPREAD * self.noise_std**2 * self.shown.trace()
        share = self.settings.share * spread.to(along)
        scale = share * self.traces / torch.where(spread, along, 1.0)
        self.precisions.mul_((1 - share)[:, None, None])
        self.precisions.add_(scale[:, None, None] * self.shown)

    def _notes(self, tiles: Tiles, stale: Tensor) -> dict[str, Tensor]:
        return super()._notes(tiles, stale) | {"image_rank": self.image_rank.clone()}
