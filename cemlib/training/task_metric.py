"""Which directions of the features the server uses: F = mean J^T J, J = d logits / d z.

In eval mode a server answers each sample by itself. So one backward pass of one logit, summed over
a batch, gives that logit's gradient at every sample, and C of them all rows of every J: no loop
over samples, and nothing of the size of all Jacobians is ever kept.
"""

from collections.abc import Callable

import torch
from torch import Generator, Tensor

from cemlib.defences.deployed import Deployed

BATCH = 256  # features at once; bounds the memory of a pass through the head


def task_metric(deployed: Deployed, images: Tensor, noise: Generator) -> Tensor:
    """F at images (N, C, H, W), on their device, in float64: (D, D).

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
    """Sum over the samples of J^T J, J centred over the classes, in float64: (D, D).

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
