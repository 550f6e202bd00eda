"""Fisher information: releases that respond less to small changes of the image.

Sources: Maeng, Guo, Kariyappa and Suh, "Bounding the invertibility of privacy-preserving instance
encoding using Fisher information", NeurIPS 2023; Hannun, Guo and van der Maaten, "Measuring data
leakage in machine-learning models with Fisher information", UAI 2021.

With the Jacobian J of the features z (D,) in the image x of d pixels, the release z + N(0, s^2 I)
has the Fisher information J^T J / s^2 about the image. By the Cramer-Rao bound an unbiased estimate
of the image has a mean squared error of at least s^2 d / tr(J^T J) a pixel. With independent random
signs v, E |J^T v|^2 = tr(J^T J), so that one backward pass of every batch of N images estimates

    penalty = scale log( mean_n |J_n^T v_n|^2 / d )

The variance s^2 would only add a constant. Maeng et al. choose the noise after the training, so
that every image has the same bound, and train with tr(J^T J) relative to |z|^2. Here the noise is
that of the defence, as with all penalties, so that features can also protect by shrinking.

How it fails: the bound holds for unbiased attackers. A decoder that knows other images is biased
towards them, and does better. It is also local: how far apart the releases of two different images
lie is not limited. A training step differentiates the encoder twice, which takes two to three times
as long.
"""

import torch
from torch import Tensor

from cemlib.config import defences as config
from cemlib.defences.penalties.base import Penalty


class Fisher(Penalty):
    """Logarithm of the mean Fisher information of clean features, times `scale`."""

    settings: config.Fisher
    differentiates_images = True

    def penalty(self, images: Tensor, labels: Tensor, features: Tensor, released: Tensor) -> Tensor:  # noqa: ARG002 - one signature for all
        """Return `scale` log(mean |J^T v|^2 / d); v is drawn from torch's global generator."""
        signs = torch.rand_like(features).round() * 2 - 1
        (pulled,) = torch.autograd.grad(features, images, signs, create_graph=True)
        return self.settings.scale * pulled.square().mean().log()
