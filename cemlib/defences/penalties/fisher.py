"""Fisher information: releases that respond less to small changes of the image.

Sources: Maeng, Guo, Kariyappa and Suh, "Bounding the invertibility of privacy-preserving instance
encoding using Fisher information", NeurIPS 2023; Hannun, Guo and van der Maaten, "Measuring data
leakage in machine-learning models with Fisher information", UAI 2021.

With the Jacobian J of the features z (D,) in the image x of d pixels, the release z + N(0, s^2 I)
has the Fisher information J^T J / s^2 about the image. By the Cramer-Rao bound an unbiased estimate
of the image has a mean squared error of at least s^2 d / tr(J^T J) a pixel; by Jensen's inequality
its mean over images is at least s^2 divided by the mean of tr(J^T J) / d. With random signs v,
`E |J^T v|^2 = tr(J^T J)`, so that one backward pass estimates it for a whole batch (J includes the
batch normalisation of the encoder, through which an image has a small effect on the others):

    penalty = scale mean_n |J_n^T v_n|^2 / d

This is the Jacobian regularisation of Hoffman, Roberts and Yaida, "Robust learning with Jacobian
regularization", 2019, at the cut. Maeng et al. choose the noise after the training, so that every
image has the same bound, and regularise the ratio of `tr(J^T J)` to `|z|^2`. The logarithm of the
mean was tried in place of the mean: its pull grows without limit as the information falls, and
features overflowed in the first epoch.

How it fails: a decoder is biased towards the images it knows, and does better than the bound for
unbiased attackers. The bound is also local: how far apart the releases of two images lie is not
limited. A training step differentiates the encoder twice: a training of the study `map/fisher` took
nearly five times as long as without.
"""

import torch
from torch import Tensor

from cemlib.config import defences as config
from cemlib.defences.penalties.base import Penalty


class Fisher(Penalty):
    """Mean Fisher information of a release about a pixel, in units of 1 / s^2, times `scale`."""

    settings: config.Fisher
    differentiates_images = True

    def penalty(self, images: Tensor, labels: Tensor, features: Tensor, released: Tensor) -> Tensor:  # noqa: ARG002 - one signature for all
        """Return `scale mean |J^T v|^2 / d`; the signs are drawn from the stream of the dropout."""
        signs = torch.rand_like(features).round() * 2 - 1
        (pulled,) = torch.autograd.grad(features, images, signs, create_graph=True)
        return self.settings.scale * pulled.square().mean()
