"""The differential privacy of Gaussian noise."""

import math


def gaussian_delta(epsilon: float, sigma: float, sensitivity: float = 1.0) -> float:
    """Return the smallest delta of Gaussian noise at a given epsilon, for the l2 sensitivity s.

    `Phi(s / 2 sigma - epsilon sigma / s) - e^epsilon Phi(-s / 2 sigma - epsilon sigma / s)`, the
    second term by logarithms, because its factors overflow and underflow. Source: Balle and Wang,
    "Improving the Gaussian mechanism for differential privacy", ICML 2018, theorem 8.
    """
    from scipy.special import log_ndtr  # takes a while to import, and most trainings do not need it

    half, shift = sensitivity / (2 * sigma), epsilon * sigma / sensitivity
    return math.exp(log_ndtr(half - shift)) - math.exp(epsilon + log_ndtr(-half - shift))
