"""Metrics of the features that a surrogate can learn of the classifier as an epoch begins.

`task`: F = mean J^T J with J = d logits / d z centred over the classes, which directions the server
uses. `image`: G = W W^T / P with W the weights of a linear reconstruction of P pixels, which
directions show the image.
"""

from collections.abc import Callable, Mapping

import torch
from torch import Generator, Tensor

from cemlib.data.pixels import to_float
from cemlib.defences.deployed import Deployed
from cemlib.numerics.ridge import ridge_regression

BATCH = 256  # features at once; bounds the memory of a pass through the head
RIDGE = 1e-3  # as fraction of the mean variance of the released features

Metric = Callable[[Deployed, Tensor, Generator], Tensor]


def task_metric(deployed: Deployed, images: Tensor, noise: Generator) -> Tensor:
    """Return F at images (N, C, H, W), on their device, in float64: (D, D).

    J is of the clean features z by the chain rule through one release each: at what the head gets
    as noise and masks made it, and 0 where the channel lets nothing through. The model is left in
    eval mode; no gradient of a weight is touched.
    """
    features = deployed.features(images)

    def answer(z: Tensor) -> Tensor:
        logits: Tensor = deployed.model.head(deployed.channel(z, noise))
        return logits

    first, *rest = torch.split(features, BATCH)
    total = squared_jacobian(answer, first)
    for part in rest:
        total += squared_jacobian(answer, part)
    return total / len(features)


def squared_jacobian(answer: Callable[[Tensor], Tensor], features: Tensor) -> Tensor:
    """Return the sum over the samples of J^T J, J centred over the classes, in float64: (D, D).

    In eval mode a server answers each sample by itself. So one backward pass of one logit, summed
    over a batch, gives that logit's gradient at every sample, and C of them all rows of every J.

    Args:
        answer: from features to logits (B, C), each sample's from its own features alone.
        features: (B, ...), D numbers each.
    """
    z = features.detach().requires_grad_()
    logits = answer(z)
    classes = logits.shape[1]
    dim = z[0].numel()
    total = torch.zeros(dim, dim, dtype=torch.float64, device=z.device)
    # The gradient of a logit less the mean of all logits is a row of the centred J.
    for weights in torch.eye(classes, dtype=logits.dtype, device=z.device) - 1 / classes:
        (rows,) = torch.autograd.grad(logits, z, weights.expand_as(logits), retain_graph=True)
        rows = rows.flatten(1).double()
        total.addmm_(rows.mT, rows)
    return total


def image_metric(deployed: Deployed, images: Tensor, noise: Generator) -> Tensor:
    """Return G at uint8 images (N, C, H, W), on their device, in float64: (D, D).

    W is what the linear attack would learn: ridge regression from one release of each image to its
    pixels. `d^T G d` is the mean squared change of a pixel of the reconstruction when the features
    move by d. The model is left in eval mode; no gradient of a weight is touched.
    """
    released = deployed.channel(deployed.features(images), noise).flatten(1)
    weights, _ = ridge_regression(released, to_float(images).flatten(1), RIDGE)
    return weights @ weights.T / weights.shape[1]


METRICS: Mapping[str, Metric] = {"task": task_metric, "image": image_metric}
"""The function behind each name that a surrogate's `metric` may have."""
