"""`image_aware`: `logdet` with its pull directed at the directions that show the image.

Source: this project. Attacks are scored in pixels, but nats count a direction of z that shows the
brightness as much as one that shows faint texture. Let W, (D, P), be the weights of the best linear
reconstruction of the pixels from one release, and

    G = W W^T / P,   so that d^T G d is the mean squared change of a pixel when z moves by d

A part of the Mahalanobis pull P_c of `logdet` on the features of a class is replaced by G:

    dR/dz_i = Q_c (z_i - mu_c) / (B D),   P_c = (Sigma_ref + sigma^2 I)^-1
    Q_c = (1 - a) P_c + a s_c G,   s_c = tr(P_c Sigma_ref) / tr(G Sigma_ref),   a = `share`

so that tr(Q_c Sigma_ref) = tr(P_c Sigma_ref): only the distribution of the pull over the directions
differs from `logdet`. G is computed at the start of every epoch, by ridge regression on `samples`
training images, each released once; P_c and s_c then and every `refresh` steps. The scale of G has
no influence.

R, which has this gradient, is (1/D) sum_c p_c 1/2 [log det(I + Sigma_ref / sigma^2) + tr(Q_c
(Sigma_c - Sigma_ref))]: the bound of `logdet` right after a factorisation. Otherwise it is no
bound, because Q_c is not the slope of a tangent: compare `val_leakage_nats`.
"""

from typing import ClassVar, Unpack

import torch
from torch import Tensor

from cemlib.config import surrogates as config
from cemlib.surrogates.base import Sizes
from cemlib.surrogates.logdet import LogDet, trace_of_product
from cemlib.surrogates.tiles import Tiles

NO_SPREAD = 1e-9  # along G, as a fraction of the spread of the noise


class ImageAware(LogDet):
    """The Gaussian bound pulled along G, which is not in checkpoints: every epoch renews it."""

    settings: config.ImageAware
    metric: ClassVar[str | None] = "image"
    gram: Tensor
    image_rank: Tensor

    def __init__(self, settings: config.ImageAware, **sizes: Unpack[Sizes]) -> None:
        super().__init__(settings, **sizes)
        self.metric_samples = settings.samples
        zeros = torch.zeros(self.dim, self.dim, dtype=torch.float64)
        self.register_buffer("gram", zeros, persistent=False)
        self.register_buffer("image_rank", zeros[0, 0].clone(), persistent=False)

    def learn(self, metric: Tensor) -> None:
        """Use a new G (D, D), of any scale, from the next factorisation on."""
        self.gram.copy_(metric)
        largest = torch.linalg.eigvalsh(self.gram)[-1]
        rank = self.gram.trace() / largest.clamp_min(torch.finfo(largest.dtype).tiny)
        self.image_rank.copy_(torch.where(largest > 0, rank, 0.0))

    def _factorise(self) -> None:
        """Compute the tangent of log det, and redirect a share of its pull along G."""
        super()._factorise()
        along = trace_of_product(self.gram.expand_as(self.covariances), self.covariances)
        # A class without samples, or with the spread of rounding errors, keeps `logdet`'s pull.
        spread = along > NO_SPREAD * self.noise_std**2 * self.gram.trace()
        share = self.settings.share * spread.to(along)
        scale = share * self.traces / torch.where(spread, along, 1.0)
        self.precisions.mul_((1 - share)[:, None, None])
        self.precisions.add_(scale[:, None, None] * self.gram)

    def _notes(self, tiles: Tiles, stale: Tensor) -> dict[str, Tensor]:
        return super()._notes(tiles, stale) | {"image_rank": self.image_rank.clone()}
