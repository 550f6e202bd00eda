"""Image metrics and the leakage bound against independent implementations and closed forms."""

import math

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.ndimage import gaussian_filter
from scipy.special import logsumexp
from skimage.metrics import peak_signal_noise_ratio, structural_similarity
from torchmetrics.functional.image import (
    peak_signal_noise_ratio as torchmetrics_psnr,
)
from torchmetrics.functional.image import (
    structural_similarity_index_measure as torchmetrics_ssim,
)

from cemlib.metrics import mse, psnr, psnr_of_mean_mse, ssim
from cemlib.numerics.leakage import leakage_bound


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


def test_psnr_of_a_known_error_and_of_identical_images() -> None:
    x = torch.zeros(2, 1, 8, 8)
    y = torch.stack([torch.full((1, 8, 8), 0.1), torch.zeros(1, 8, 8)])
    assert psnr(x, y).tolist() == [pytest.approx(20.0, abs=1e-5), math.inf]


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


def test_valid_ssim_equals_torchmetrics() -> None:
    x, y = image_pairs()
    _, full = torchmetrics_ssim(y, x, data_range=1.0, reduction="none", return_full_image=True)
    # Its own mean includes the reflected border.
    expected = full[..., 5:-5, 5:-5].mean((1, 2, 3))
    torch.testing.assert_close(ssim(x, y, padding="valid"), expected, atol=2e-5, rtol=0)


@pytest.mark.parametrize(("channels", "height", "width"), [(1, 8, 8), (3, 16, 24), (3, 32, 32)])
def test_zero_padded_ssim_equals_a_loop_over_scipy_filters(
    channels: int, height: int, width: int
) -> None:
    x, y = (images.double() for images in image_pairs(channels, height, width))
    for i, value in enumerate(ssim(x, y)):
        expected = np.mean([_zero_padded_ssim(x[i, c], y[i, c]) for c in range(channels)])
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


@pytest.mark.parametrize("padding", ["zero", "valid"])
def test_ssim_is_one_for_equal_images_symmetric_and_blind_to_flips(padding: str) -> None:
    x, y = image_pairs()
    torch.testing.assert_close(ssim(x, x, padding), torch.ones(len(x)))
    torch.testing.assert_close(ssim(x, y, padding), ssim(y, x, padding))
    torch.testing.assert_close(ssim(x.flip(-1).mT, y.flip(-1).mT, padding), ssim(x, y, padding))


def test_ssim_of_constant_images_is_its_luminance_term() -> None:
    x, y = torch.full((1, 1, 16, 16), 0.2), torch.full((1, 1, 16, 16), 0.6)
    expected = (2 * 0.2 * 0.6 + 1e-4) / (0.2**2 + 0.6**2 + 1e-4)
    assert ssim(x, y, padding="valid").item() == pytest.approx(expected, abs=1e-4)


def test_ssim_keeps_its_precision_under_autocast_and_with_half_precision_images() -> None:
    x, y = (images.bfloat16() for images in image_pairs())
    exact = ssim(x.double(), y.double())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(ssim(x.float(), y.float()).double(), exact, atol=1e-6, rtol=0)
    torch.testing.assert_close(ssim(x, y).double(), exact, atol=4e-3, rtol=0)


def test_ssim_of_many_images_equals_ssim_of_each() -> None:
    x, y = (images.repeat(30, 1, 1, 1) for images in image_pairs(1, 16, 16))
    each = torch.cat([ssim(a[None], b[None]) for a, b in zip(x, y, strict=True)])
    torch.testing.assert_close(ssim(x, y), each)
    assert ssim(x[:0], y[:0]).shape == (0,)


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
def test_bad_images_are_refused(metric, x, y, message) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=message):
        metric(x, y)


def test_ssim_names_images_below_the_window_and_unknown_padding() -> None:
    small = torch.zeros(1, 1, 8, 16)
    with pytest.raises(ValueError, match=r"8x16 pixels hold no 11x11 window: use padding='zero'"):
        ssim(small, small, padding="valid")
    with pytest.raises(ValueError, match="'reflect'"):
        ssim(small, small, padding="reflect")  # type: ignore[arg-type]


def test_psnr_of_mean_mse_refuses_no_errors() -> None:
    with pytest.raises(ValueError, match=r"\(0,\)"):
        psnr_of_mean_mse(torch.zeros(0))


def test_leakage_of_one_gaussian_class_is_the_channel_capacity_formula() -> None:
    """Linear-Gaussian channel: I(x; A x + n) = 1/2 log det(I + A A^T / s^2) for x ~ N(0, I)."""
    generator = torch.Generator().manual_seed(0)
    A = torch.randn(6, 4, generator=generator, dtype=torch.float64)
    z = torch.randn(200_000, 4, generator=generator, dtype=torch.float64) @ A.T
    eigenvalues = np.linalg.eigvalsh((A @ A.T).numpy())
    exact = 0.5 * np.sum(np.log1p(eigenvalues.clip(0) / 0.3**2))
    y = torch.zeros(len(z), dtype=torch.long)
    assert leakage_bound(z, y, 0.3) == pytest.approx(exact, abs=0.02)


def released_information(z: np.ndarray, noise_std: float) -> float:
    """I(i; z_i + noise) of a uniformly drawn sample i, D = 1, by numerical integration."""

    def minus_p_log_p(t: float) -> float:
        log_p = logsumexp(-0.5 * ((t - z) / noise_std) ** 2) - math.log(
            len(z) * noise_std * math.sqrt(2 * math.pi)
        )
        return float(-math.exp(log_p) * log_p)

    low, high = z.min() - 9 * noise_std, z.max() + 9 * noise_std
    entropy, _ = quad(minus_p_log_p, low, high, limit=2000, points=sorted(z)[:: len(z) // 20 or 1])
    return entropy - 0.5 * math.log(2 * math.pi * math.e * noise_std**2)


@pytest.mark.parametrize("separation", [0.0, 0.5, 2.0, 8.0])
@pytest.mark.parametrize("noise_std", [0.2, 1.0])
def test_leakage_bounds_the_information_of_a_two_component_mixture(
    separation: float, noise_std: float
) -> None:
    rng = np.random.default_rng(3)
    z = np.concatenate([rng.normal(0, 0.4, 30), rng.normal(separation, 1.0, 60)])
    y = torch.tensor([0] * 30 + [1] * 60)
    bound = leakage_bound(torch.tensor(z)[:, None], y, noise_std)
    assert bound >= released_information(z, noise_std) > 0


def test_leakage_is_tight_for_separate_gaussian_classes() -> None:
    quantiles = torch.special.ndtri((torch.arange(400, dtype=torch.float64) + 0.5) / 400)
    z = torch.cat([quantiles, 40 + quantiles])[:, None]
    y = torch.arange(2).repeat_interleave(400)
    exact = released_information(z[:, 0].numpy(), 0.5)
    assert leakage_bound(z, y, 0.5) == pytest.approx(exact, abs=0.01)


def test_leakage_counts_class_frequencies_when_features_tell_nothing_more() -> None:
    """Constant features within a class release only which class: the entropy of the labels."""
    y = torch.tensor([0] * 6 + [3] * 3 + [7])
    z = y.double()[:, None].expand(-1, 4)
    expected = -(0.6 * math.log(0.6) + 0.3 * math.log(0.3) + 0.1 * math.log(0.1))
    assert leakage_bound(z, y, 0.1) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("samples", [5, 12, 40])
def test_both_gram_matrices_give_the_numpy_log_determinant(samples: int) -> None:
    z = np.random.default_rng(samples).normal(size=(samples, 12)) * np.arange(1, 13)
    covariance = np.cov(z, rowvar=False, bias=True)
    expected = 0.5 * np.linalg.slogdet(np.eye(12) + covariance / 0.5**2)[1]
    y = torch.zeros(samples, dtype=torch.long)
    assert leakage_bound(torch.tensor(z), y, 0.5) == pytest.approx(expected, rel=1e-10)


def features() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    y = torch.randint(0, 3, (90,), generator=generator)
    return torch.randn(90, 8, generator=generator, dtype=torch.float64) + y[:, None], y


def test_leakage_is_invariant_to_order_shift_rotation_and_joint_scale() -> None:
    z, y = features()
    bound = leakage_bound(z, y, 0.2)
    order = torch.randperm(len(z), generator=torch.Generator().manual_seed(2))
    rotation = torch.linalg.qr(z[:8])[0]
    assert leakage_bound(z[order], y[order], 0.2) == pytest.approx(bound, rel=1e-10)
    assert leakage_bound(z + 5, y, 0.2) == pytest.approx(bound, rel=1e-10)
    assert leakage_bound(z @ rotation, y, 0.2) == pytest.approx(bound, rel=1e-10)
    assert leakage_bound(3 * z, y, 0.6) == pytest.approx(bound, rel=1e-10)


def test_leakage_falls_with_noise_and_with_shrinking_spread() -> None:
    """The sign that every surrogate relies on: less spread about the class mean leaks less."""
    z, y = features()
    means = torch.stack([z[y == label].mean(0) for label in range(3)])[y]
    bounds = [leakage_bound(means + scale * (z - means), y, 0.1) for scale in (1.0, 0.5, 0.1, 0.0)]
    assert bounds == sorted(bounds, reverse=True)
    assert leakage_bound(z, y, 1.0) < leakage_bound(z, y, 0.1) < leakage_bound(z, y, 0.0)


def test_leakage_without_noise_is_unbounded() -> None:
    z, y = features()
    assert leakage_bound(z, y, 0.0) == math.inf


@pytest.mark.parametrize(
    ("z", "y", "noise_std", "message"),
    [
        (torch.zeros(3, 2, 2), torch.zeros(3).long(), 0.1, r"\(3, 2, 2\)"),
        (torch.zeros(3, 2), torch.zeros(4).long(), 0.1, r"\(3, 2\) and \(4,\)"),
        (torch.zeros(0, 2), torch.zeros(0).long(), 0.1, "not empty"),
        (torch.zeros(3, 2), torch.zeros(3), 0.1, "y integers"),
        (torch.zeros(3, 2), torch.zeros(3).long(), -0.1, "at least 0, got -0.1"),
        (torch.zeros(3, 2), torch.zeros(3).long(), math.nan, "got nan"),
        (torch.full((3, 2), math.nan), torch.zeros(3).long(), 0.1, "diverged"),
    ],
)
def test_leakage_refuses_bad_input(
    z: torch.Tensor, y: torch.Tensor, noise_std: float, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        leakage_bound(z, y, noise_std)
