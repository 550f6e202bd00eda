"""Least squares in closed form: ridge regression, its penalty, and the best mix of two answers.

Source: Hoerl and Kennard, "Ridge regression: biased estimation for nonorthogonal problems",
Technometrics 12(1), 1970.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

RIDGES = tuple(10.0**power for power in range(-8, 2))  # multiples of the mean variance of inputs
SMALLEST = 1e-30  # smallest mean variance, and squared distance of two answers


def ridge_regression(inputs: Tensor, targets: Tensor, ridge: float) -> tuple[Tensor, Tensor]:
    """Return float64 weights (D, P) and intercept (P,) from inputs (N, D) to targets (N, P).

    `ridge` is the penalty on the weights, relative to the mean variance of the inputs: with centred
    X and Y, they solve (X^T X / N + ridge tr(X^T X / N) / D I) W = X^T Y / N.

    Example:
        >>> x = torch.tensor([[0.0], [1.0], [2.0]])
        >>> weights, intercept = ridge_regression(x, 3 * x + 1, ridge=1e-9)
        >>> round(weights.item(), 4), round(intercept.item(), 4)
        (3.0, 1.0)
    """
    x_mean, y_mean = inputs.double().mean(0), targets.double().mean(0)
    x, y = inputs.double() - x_mean, targets.double() - y_mean
    # For constant inputs the smallest penalty keeps the system regular.
    penalty = max(ridge * x.square().mean().item(), torch.finfo(torch.float64).tiny)
    # The smaller of the two Gram matrices: (X^T X + p)^-1 X^T = X^T (X X^T + p)^-1.
    wide = x.shape[1] > len(x)
    gram = (x @ x.T if wide else x.T @ x) / len(x)
    gram.diagonal().add_(penalty)
    weights = x.T @ torch.linalg.solve(gram, y) if wide else torch.linalg.solve(gram, x.T @ y)
    weights /= len(x)
    return weights, y_mean - x_mean @ weights


def best_ridge(
    values: Tensor, turned: Tensor, scores: Tensor, intercept: Tensor, truth: Tensor
) -> Tensor:
    """Return the penalty with the lowest error on other samples, of `RIDGES` times `values`' mean.

    Args:
        values: Eigenvalues (D,) of the covariance of the inputs.
        turned: Cross-covariance (D, P) of inputs and targets, in the basis of the eigenvectors.
        scores: Centred inputs (N, D) of the other samples, in the same basis.
        intercept: Mean (P,) of the targets.
        truth: Targets (N, P) of the other samples, in [0, 1], to which answers are clipped.
    """
    ridges = values.mean().clamp_min(SMALLEST) * torch.tensor(RIDGES).to(values)
    answers = ((scores / (values + r) @ turned + intercept).float().clamp(0, 1) for r in ridges)
    errors = torch.stack([F.mse_loss(answer, truth) for answer in answers])
    return ridges[errors.argmin()]


def best_share(first: Tensor, second: Tensor, truth: Tensor) -> Tensor:
    """Return the share of `first` in the mix of least squared error to `truth`; 0 if both agree.

    >>> best_share(torch.tensor([0.0, 4.0]), torch.tensor([1.0, 0.0]), torch.tensor([1.0, 1.0]))
    tensor(0.2353)
    """
    apart = (first - second).double()
    share = (apart * (truth - second)).sum() / apart.square().sum().clamp_min(SMALLEST)
    return share.clamp(0, 1).float()
