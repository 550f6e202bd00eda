"""Image metrics against independent implementations and closed forms."""

import numpy as np
import pytest
import torch
from scipy.ndimage import gaussian_filter
from skimage.metrics import peak_signal_noise_ratio, structural_similarity
from torchmetrics.functional.image import (
    peak_signal_noise_ratio as torchmetrics_psnr,
)

from cemlib.metrics import mse, psnr, psnr_of_mean_mse, ssim


def image_pairs(channels: int = 3, height: int = 32, width: int = 32) -> tuple[torch.Tensor, ...]:
    """Smooth images and noisy copies of growing noise: from nearly equal to unrelated."""
    generator = torch.Generator().manual_seed(7)
    smooth = torch.rand(6, channels, height // 4, width // 4, generator=generator)
    x = torch.nn.functional.interpolate(smooth, (height, width), mode="bilinear")
    strength = torch.tensor([0.01, 0.05, 0.1, 0.2, 0.5, 1.0]).view(-1, 1, 1, 1)
    y = (x + strength * torch.randn(x.shape, generator=generator)).clamp(0, 1)
    return x, y


def test_mse_and_psnr_equal_scikit_image_per_image() -> None:
    x, y = image_pairs()
    for i, (error, ratio) in enumerate(zip(mse(x, y), psnr(x, y), strict=True)):
        a, b = x[i].double().numpy(), y[i].double().numpy()
        assert error.item() == pytest.approx(np.mean((a - b) ** 2), rel=1e-5)
        assert ratio.item() == pytest.approx(peak_signal_noise_ratio(a, b, data_range=1), rel=1e-5)


def test_psnr_of_mean_mse_equals_torchmetrics_on_the_batch() -> None:
    x, y = image_pairs()
    expected = torchmetrics_psnr(y, x, data_range=1.0).item()
    assert psnr_of_mean_mse(mse(x, y)) == pytest.approx(expected, rel=1e-6)
    assert psnr_of_mean_mse(mse(x, y)) < psnr(x, y).mean()


@pytest.mark.parametrize(
    ("channels", "height", "width"), [(1, 16, 16), (3, 32, 32), (3, 64, 64), (3, 20, 28)]
)
def test_valid_ssim_equals_scikit_image(channels: int, height: int, width: int) -> None:
    x, y = image_pairs(channels, height, width)
    for i, value in enumerate(ssim(x, y, padding="valid")):
        # scikit-image averages the full map cropped by half a window: the windows inside.
        expected = structural_similarity(
            x[i].double().numpy(),
            y[i].double().numpy(),
            data_range=1.0,
            channel_axis=0,
            gaussian_weights=True,
            sigma=1.5,
            use_sample_covariance=False,
        )
        assert value.item() == pytest.approx(expected, abs=2e-5)


@pytest.mark.parametrize(("channels", "height", "width"), [(1, 8, 8), (3, 16, 24), (3, 32, 32)])
def test_zero_padded_ssim_equals_a_loop_over_scipy_filters(
    channels: int, height: int, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cemlib.metrics._CHUNK", 4)  # of 6 images
    x, y = (images.double() for images in image_pairs(channels, height, width))
    for a, b, value in zip(x, y, ssim(x, y), strict=True):
        expected = np.mean([_zero_padded_ssim(a[c], b[c]) for c in range(channels)])
        assert value.item() == pytest.approx(expected, abs=1e-12)


def _zero_padded_ssim(x: torch.Tensor, y: torch.Tensor) -> float:
    def blur(image: np.ndarray) -> np.ndarray:
        return gaussian_filter(image, 1.5, radius=5, mode="constant", cval=0.0)

    a, b = x.numpy(), y.numpy()
    mu_a, mu_b = blur(a), blur(b)
    cov = blur(a * b) - mu_a * mu_b
    var_a, var_b = blur(a * a) - mu_a**2, blur(b * b) - mu_b**2
    numerator = (2 * mu_a * mu_b + 1e-4) * (2 * cov + 9e-4)
    return float(np.mean(numerator / ((mu_a**2 + mu_b**2 + 1e-4) * (var_a + var_b + 9e-4))))


def test_ssim_keeps_its_precision_under_autocast_and_with_half_precision_images() -> None:
    x, y = (images.bfloat16() for images in image_pairs())
    exact = ssim(x.double(), y.double())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(ssim(x.float(), y.float()).double(), exact, atol=1e-6, rtol=0)
    torch.testing.assert_close(ssim(x, y).double(), exact, atol=4e-3, rtol=0)


def test_ssim_in_inference_mode_does_not_spoil_its_gradients_afterwards() -> None:
    x, y = torch.rand(2, 3, 17, 19)  # a size of its own, since windows are cached
    with torch.inference_mode():
        ssim(x[None], y[None])
    ssim(x[None].requires_grad_(), y[None]).sum().backward()


def test_ssim_is_differentiable() -> None:
    x, y = (images[2:4, :1, :8, :8].double() for images in image_pairs())
    assert torch.autograd.gradcheck(lambda a: ssim(a, y), x.requires_grad_())


@pytest.mark.parametrize("metric", [mse, psnr, ssim])
@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (torch.zeros(2, 1, 8, 8), torch.zeros(3, 1, 8, 8), r"\(2, 1, 8, 8\) and \(3, 1, 8, 8\)"),
        (torch.zeros(1, 8, 8), torch.zeros(1, 8, 8), r"\(N, C, H, W\)"),
        (torch.zeros(1, 1, 8, 8).byte(), torch.zeros(1, 1, 8, 8).byte(), "divide uint8"),
    ],
)
def test_bad_images_are_refused(metric, x, y, message) -> None:
    with pytest.raises(ValueError, match=message):
        metric(x, y)


def test_ssim_names_images_below_the_window_and_unknown_padding() -> None:
    small = torch.zeros(1, 1, 8, 16)
    with pytest.raises(ValueError, match=r"8x16 pixels hold no 11x11 window: use padding='zero'"):
        ssim(small, small, padding="valid")
    with pytest.raises(ValueError, match="'reflect'"):
        ssim(small, small, padding="reflect")


def test_psnr_of_mean_mse_refuses_no_errors() -> None:
    with pytest.raises(ValueError, match=r"\(0,\)"):
        psnr_of_mean_mse(torch.zeros(0))
