"""MSE, PSNR and SSIM of image pairs, one number per pair, and bounds on a release's leakage.

Source: SSIM by Wang, Bovik, Sheikh and Simoncelli, "Image quality assessment: from error
visibility to structural similarity", IEEE Trans. Image Processing 13(4), 2004.
"""

from functools import cache
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from cemlib.numerics.leakage import leakage_bound, leakage_estimate

__all__ = ["leakage_bound", "leakage_estimate", "mse", "psnr", "psnr_of_mean_mse", "ssim"]

WINDOW = 11
_SIGMA = 1.5
_CHUNK = 64  # images per chunk, whose local moments fit into the cache
_C1 = 0.01**2
_C2 = 0.03**2


def mse(x: Tensor, y: Tensor) -> Tensor:
    """Return the mean squared errors (N,) of pairs of images (N, C, H, W), floats in [0, 1].

    Raises:
        ValueError: if the shapes differ, are not 4-D or hold no pixel, or the values are integers.

    Example:
        >>> mse(torch.zeros(2, 1, 4, 4), torch.full((2, 1, 4, 4), 0.5))
        tensor([0.2500, 0.2500])
    """
    _check_images(x, y)
    return (x - y).square().flatten(1).mean(1)


def psnr(x: Tensor, y: Tensor) -> Tensor:
    """Return the peak signal-to-noise ratios (N,) in dB, for a peak of 1: ``-10 log10(mse)``.

    They are infinite for identical images. Arguments and exceptions are those of `mse`.

    Example:
        >>> psnr(torch.zeros(1, 3, 8, 8), torch.full((1, 3, 8, 8), 0.1))
        tensor([20.])
    """
    return -10 * mse(x, y).log10()


def psnr_of_mean_mse(errors: Tensor) -> float:
    """Return the PSNR in dB of the mean of per-image errors (N,), the published convention.

    It is never above the mean of `psnr` (Jensen's inequality), and must not be compared with it.

    Raises:
        ValueError: if ``errors`` is not a vector with at least one element.

    Example:
        >>> round(psnr_of_mean_mse(torch.tensor([0.01, 0.04])), 2)
        16.02
    """
    if errors.ndim != 1 or len(errors) == 0:
        raise ValueError(f"errors must be a non-empty vector (N,), got shape {tuple(errors.shape)}")
    return float(-10 * errors.double().mean().log10())


def ssim(x: Tensor, y: Tensor, padding: Literal["zero", "valid"] = "zero") -> Tensor:
    """Return the structural similarities (N,) in [-1, 1] of image pairs (Wang et al., equation 13).

    The window is an 11x11 Gaussian of sigma 1.5, the constants are those for a dynamic range of 1,
    and the mean is over windows and channels. Images are as for `mse`. With ``padding="zero"``, the
    published convention of this field, zeros surround the images, so that every pixel has a window,
    and the border counts as similar; ``"valid"``, usual elsewhere, takes only windows inside.

    Raises:
        ValueError: as for `mse`, for another ``padding``, and for ``"valid"`` if an image side is
            below 11.

    Example:
        >>> ramp = torch.linspace(0, 1, 16).expand(1, 1, 16, 16)
        >>> ssim(ramp, ramp)
        tensor([1.])
        >>> [round(float(ssim(ramp, 1 - ramp, padding)), 3) for padding in ("zero", "valid")]
        [-0.163, -0.827]
    """
    _check_images(x, y)
    if padding not in ("zero", "valid"):
        raise ValueError(f"padding must be 'zero' or 'valid', got {padding!r}")
    height, width = x.shape[-2:]
    if padding == "valid" and min(height, width) < WINDOW:
        raise ValueError(
            f"images of {height}x{width} pixels hold no {WINDOW}x{WINDOW} window: "
            "use padding='zero' or larger images"
        )
    border = WINDOW // 2 if padding == "zero" else 0
    chunks = zip(torch.split(x, _CHUNK), torch.split(y, _CHUNK), strict=True)
    return torch.cat([_mean_similarity(a, b, border) for a, b in chunks]).to(x.dtype)


def _check_images(x: Tensor, y: Tensor) -> None:
    if x.shape != y.shape or x.ndim != 4 or x.shape[1:].numel() == 0:
        raise ValueError(
            "images must be two tensors of one shape (N, C, H, W), "
            f"got {tuple(x.shape)} and {tuple(y.shape)}"
        )
    if not (x.is_floating_point() and y.is_floating_point()):
        raise ValueError(
            f"images must be floating point in [0, 1], got {x.dtype} and {y.dtype}: "
            "divide uint8 images by 255"
        )


def _mean_similarity(x: Tensor, y: Tensor, border: int) -> Tensor:
    """Return the mean of each SSIM map, in float64 because variances are small differences."""
    x, y = x.double(), y.double()
    rows, columns = (_windows(size, border, x.device) for size in x.shape[-2:])
    moments = rows @ torch.stack([x, y, x * x, y * y, x * y]) @ columns.T
    return _similarity(*moments.unbind()).flatten(1).mean(1)


@cache
@torch.inference_mode(mode=False)  # a tensor of inference mode could not be used in training later
def _windows(size: int, border: int, device: torch.device) -> Tensor:
    """Return the matrix (positions, size) of the 1-D window at each of its positions.

    The row of pixels has `border` zeros at both ends. For small planes of one channel, products
    with this banded matrix are far faster than a library's convolution with the separable window.
    The result is cached, because a training step must not wait for a copy to the device.
    """
    distance = torch.arange(WINDOW, dtype=torch.float64) - WINDOW // 2
    window = (-0.5 * (distance / _SIGMA).square()).exp()
    pixels = F.pad(torch.eye(size, dtype=torch.float64), (0, 0, border, border))
    return (pixels.unfold(0, WINDOW, 1) @ (window / window.sum())).to(device)


def _similarity(x: Tensor, y: Tensor, xx: Tensor, yy: Tensor, xy: Tensor) -> Tensor:
    """Return the SSIM map from the local means of x, y, x^2, y^2 and xy."""
    luminance = (2 * x * y + _C1) / (x * x + y * y + _C1)
    variances = (xx - x * x) + (yy - y * y)
    return luminance * (2 * (xy - x * y) + _C2) / (variances + _C2)
