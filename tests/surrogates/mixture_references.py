"""Formulae of the surrogates with clusters in float64, one class, cluster and sample at a time.

Written from the mathematics alone and in the plainest form, to compare the batched code with.
"""

import math

import torch
from surrogate_batches import NOISE_STD, assert_near, built, value_and_gradient
from surrogate_references import classes_of
from torch import Tensor
from torch.distributions import MultivariateNormal


def loaded(name, num_classes, dim, clusters, *, num_train=1, **options):
    """A surrogate with made-up statistics, one cluster of them empty where there are several."""
    generator = torch.Generator().manual_seed(1)
    weights = torch.rand(num_classes, clusters, generator=generator)
    if clusters > 1:
        weights[0, 1] = 0
    options["num_train"] = num_train
    surrogate = built(name, num_classes, dim, clusters=clusters, **options)
    shape = (num_classes, clusters, dim)
    means = torch.rand(shape, generator=generator)
    variances = 0.02 * torch.rand(shape[: surrogate.variances.ndim], generator=generator)
    if options.get("covariance") == "full":
        variances = variances.double().diag_embed()
    surrogate.load_statistics(means, weights / weights.sum(1, keepdim=True), variances)
    return surrogate


def stored(surrogate) -> list[Tensor]:
    """Means, weights and variances as they are used."""
    return [values.double() for values in (surrogate.means, surrogate.weights, surrogate.variances)]


def some_covariances(num_classes, clusters, dim):
    """Symmetric, of full rank, about as large as variances of features."""
    generator = torch.Generator().manual_seed(2)
    shape = (num_classes, clusters, dim, 2 * dim)
    roots = torch.randn(shape, generator=generator, dtype=torch.float64)
    return 0.01 * roots @ roots.mT / (2 * dim)


def assert_equal_to(by_loops, surrogate, z, y) -> None:
    """Compare value and gradient with the loops, in single and in double precision."""
    expected, (slope,) = value_and_gradient(by_loops, z.double())

    def compare(z, rel):
        value, (gradient,) = value_and_gradient(lambda z: surrogate(z, y), z)
        assert_near(value, expected, rel)
        assert_near(gradient, slope, rel)

    compare(z, 1e-5)
    surrogate.double()
    compare(z.double(), 1e-9)


def nearest_members(z: Tensor, positions: list[int], centroids: Tensor) -> dict[int, list[int]]:
    """Samples of one class by the index of their nearest centroid."""
    joined: dict[int, list[int]] = {}
    for i in positions:
        distances = [float((z[i].detach() - mu).square().sum()) for mu in centroids]
        joined.setdefault(distances.index(min(distances)), []).append(i)
    return joined


def share_of_batch(mass: float, weight: float, num_train: int, num_classes: int) -> float:
    wanted = 10 * mass / (weight * num_train / num_classes)
    return 0.99 if wanted >= 1 else wanted


def clustering(z, y, means, weights, variances, *, num_train, gate, indexing) -> Tensor:
    """Variances (C, K) or (C, K, D); with `indexing` by the public code's rows."""
    ordered = sorted(y.tolist())
    total = z.sum() * 0
    present = classes_of(y)
    for u, positions in enumerate(present):
        c = int(y[positions[0]])
        row = ordered[u] if indexing else c
        for k, members in nearest_members(z, positions, means[c]).items():
            pi = float(weights[row, k])
            if pi == 0:
                continue
            a = share_of_batch(len(members), pi, num_train, len(means))
            v = sum((z[i] - means[c, k]) ** 2 for i in members) / len(members)
            v = v if variances.ndim == 3 else v.mean().reshape(1)
            v = a * v + (1 - a) * variances[row, k]
            terms = [hinge(value, gate, 0.125 * NOISE_STD**2, 0.01) for value in v]
            total = total + pi * sum(terms) / len(terms)
    return total / len(present)


def hinge(value: Tensor, gate: str, threshold: float, offset: float) -> Tensor:
    if gate == "linear":
        return value + 0.001
    return torch.relu((value + offset).log() - math.log(threshold + offset))


def clustering_of_batch(z, y, means, weights, *, tau, gate) -> Tensor:
    """The form without stored variances."""
    total = z.sum() * 0
    for positions in classes_of(y):
        c = int(y[positions[0]])
        spread = z.sum() * 0
        for k, members in nearest_members(z, positions, means[c]).items():
            norms = [((z[i] - means[c, k]) ** 2).sum() for i in members]
            spread = spread + weights[c, k] * sum(norms) / len(norms)
        if gate == "log":
            spread = torch.relu((spread + 1e-6).log() - math.log(tau + 1e-6))
        total = total + len(positions) / len(y) * spread
    return total


def responsibilities(row: Tensor, means: Tensor, weights: Tensor, covariances: Tensor) -> list:
    """Shares of one sample in the components of its class: means (K, D), covariances (K, D, D)."""
    used = [k for k in range(len(means)) if weights[k] > 0]
    logs = {
        k: float(weights[k].log() + MultivariateNormal(means[k], covariances[k]).log_prob(row))
        for k in used
    }
    largest = max(logs.values(), default=0)
    raised = [math.exp(logs[k] - largest) if k in logs else 0.0 for k in range(len(means))]
    return [value / sum(raised) if used else 0.0 for value in raised]


def gmm(surrogate, z, y, covariances, num_train) -> Tensor:
    """The bound per dimension, with what is stored but for the covariances (C, K, D, D)."""
    means, weights, _ = stored(surrogate)
    num_classes, clusters, dim = means.shape
    total = z.sum() * 0
    for c in range(num_classes):
        positions = [i for i, label in enumerate(y.tolist()) if label == c]
        r = {
            i: responsibilities(z[i].detach(), means[c], weights[c], covariances[c])
            for i in positions
        }
        for k in range(clusters):
            p = float(surrogate.class_shares[c] * weights[c, k])
            if p == 0:
                continue
            mass = sum(r[i][k] for i in positions)
            spread = covariances[c, k]
            if mass > 0:
                a = share_of_batch(mass, float(weights[c, k]), num_train, num_classes)
                apart = [z[i] - means[c, k] for i in positions]
                outer = [
                    r[i][k] * torch.outer(row, row) for i, row in zip(positions, apart, strict=True)
                ]
                moment = sum(outer) / mass
                moment = moment.diagonal().diag() if surrogate.covariance == "diagonal" else moment
                spread = a * moment + (1 - a) * spread
            log_det = torch.linalg.slogdet(torch.eye(dim) + spread / NOISE_STD**2).logabsdet
            total = total + p * (-math.log(p) + log_det / 2)
    return total / dim
