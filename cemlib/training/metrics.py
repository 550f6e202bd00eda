"""Metrics of the features that a surrogate can ask for before every epoch in which it acts.

`task` tells which directions the server uses: F = mean J^T J with J = d logits / d z, centred over
the classes. `image` tells which directions show the image: G = W W^T / P with the weights W of a
linear reconstruction of P pixels. Images are drawn anew for every epoch. The model is left in eval
mode, and the gradients of its weights are not changed.
"""

from collections.abc import Callable, Mapping
from functools import reduce

import torch
from torch import Generator, Tensor

from cemlib.data.prepared import to_float
from cemlib.defences.deployed import Deployed
from cemlib.numerics.divergence import check_finite
from cemlib.numerics.ridge import ridge_regression
from cemlib.numerics.seeds import generator
from cemlib.surrogates.base import Surrogate

BATCH = 256  # features per pass through the head
RIDGE = 1e-3  # as a fraction of the mean variance of the released features

Metric = Callable[[Deployed, Tensor, Generator], Tensor]


def task_metric(deployed: Deployed, images: Tensor, noise: Generator) -> Tensor:
    """Return F (D, D) at images (N, C, H, W), on their device, in float64.

    J is the derivative with respect to the clean features, through one release of each image.
    """
    features = deployed.features(images)
    parts = (squared_jacobian(deployed, part, noise) for part in torch.split(features, BATCH))
    return reduce(torch.add, parts) / len(features)


def squared_jacobian(deployed: Deployed, features: Tensor, noise: Generator) -> Tensor:
    """Return the sum over the samples of J^T J (D, D), J centred over the classes, in float64.

    In eval mode the logits of a sample depend on its features alone. One backward pass for each of
    the C logits, summed over the batch, therefore gives all rows of every J.
    """
    z = features.detach().requires_grad_()
    logits: Tensor = deployed.model.head(deployed.channel(z, noise))
    classes = logits.shape[1]
    dim = z[0].numel()
    total = torch.zeros(dim, dim, dtype=torch.float64, device=z.device)
    # The gradient of a logit minus the mean of all logits is a row of the centred J.
    for weights in torch.eye(classes, dtype=logits.dtype, device=z.device) - 1 / classes:
        (rows,) = torch.autograd.grad(logits, z, weights.expand_as(logits), retain_graph=True)
        rows = rows.flatten(1).double()
        total.addmm_(rows.mT, rows)
    return total


def image_metric(deployed: Deployed, images: Tensor, noise: Generator) -> Tensor:
    """Return G (D, D) at uint8 images (N, C, H, W), on their device, in float64.

    W is fitted like the linear attack, by ridge regression from one release of each image to its
    pixels. `d^T G d` is the mean squared change of a reconstructed pixel as the features move by d.
    """
    released = deployed.channel(deployed.features(images), noise).flatten(1)
    weights, _ = ridge_regression(released, to_float(images).flatten(1), RIDGE)
    return weights @ weights.T / weights.shape[1]


METRICS: Mapping[str, Metric] = {"task": task_metric, "image": image_metric}
"""The function for each value of a surrogate's `metric`."""


def learn_metric(
    surrogate: Surrogate, deployed: Deployed, images: Tensor, seed: int, number: int
) -> None:
    """Give a surrogate its metric, if any, in epoch `number`; raise DivergedError if not finite."""
    if surrogate.metric is None:
        return
    order = torch.randperm(len(images), generator=generator(seed, "task_images", number))
    chosen = images[order[: surrogate.metric_samples].to(images.device)]
    noise = generator(seed, "task_noise", number, images.device)
    metric = METRICS[surrogate.metric](deployed, chosen, noise)
    check_finite(number, **{f"{surrogate.metric}_metric": float(metric.trace())})
    surrogate.learn(metric)
