"""Masks hide, noise has the variance that is said, and the plain part betrays neither."""

import numpy as np
import pytest
from scipy.stats import chisquare, kstest, norm

from cemlib.labelling.masks import draw_masks, draw_noise
from cemlib.labelling.setting import Setting

QUERIES = 4000


def setting_of(noise_std: float = 4.0, mask_bits: int = 40) -> Setting:
    return Setting(15, 5, noise_std, key_bits=256, mask_bits=mask_bits, insecure_for_testing=True)


def test_masks_are_uniform_over_their_range() -> None:
    masks = draw_masks(setting_of(), QUERIES)
    assert masks.shape == (QUERIES, 5)
    assert masks.min() >= 0
    assert masks.max() < 2**52
    for counts in (np.bincount((masks >> 48).ravel()), np.bincount((masks & 15).ravel())):
        assert len(counts) == 16
        assert chisquare(counts).pvalue > 1e-6


def test_masks_of_two_calls_differ() -> None:
    assert not np.any(draw_masks(setting_of(), 50) == draw_masks(setting_of(), 50))


@pytest.mark.parametrize("seed", [0, None])
def test_noise_is_normal_with_its_share_of_the_variance(seed: int | None) -> None:
    generator = None if seed is None else np.random.default_rng(seed)
    noise = draw_noise(setting_of(noise_std=4.0), QUERIES, generator) / 4096
    assert kstest(noise.ravel(), norm(scale=4 / 15**0.5).cdf).pvalue > 1e-6


def test_noise_of_a_seed_is_repeated_and_rounded_to_the_grid() -> None:
    setting = setting_of(noise_std=4.0)
    first = draw_noise(setting, 7, np.random.default_rng(3))
    exact = np.random.default_rng(3).standard_normal((7, 5)) * 4 / 15**0.5
    assert np.abs(first / 4096 - exact).max() <= 0.5 / 4096
    assert not np.array_equal(draw_noise(setting, 7, None), draw_noise(setting, 7, None))


@pytest.mark.parametrize("noise_std", [0.1, 4.0])
def test_the_plain_part_does_not_betray_the_noise(noise_std: float) -> None:
    setting = setting_of(noise_std)
    noise = draw_noise(setting, QUERIES, np.random.default_rng(0))
    fraction = (draw_masks(setting, QUERIES) + noise) % 4096
    counts = np.bincount((fraction // 256).ravel(), minlength=16)
    assert chisquare(counts).pvalue > 1e-6
    assert abs(np.corrcoef(fraction.ravel(), noise.ravel())[0, 1]) < 6 / np.sqrt(noise.size)


def test_masks_of_whole_votes_would_betray_it() -> None:
    # Why masks lie on the noise's grid: with whole ones the noise can be read off the plain part.
    setting = setting_of(noise_std=0.1)
    noise = draw_noise(setting, QUERIES, np.random.default_rng(0))
    plain = draw_masks(setting, QUERIES) // 4096 * 4096 + noise
    read_off = (plain + 2048) % 4096 - 2048
    assert np.array_equal(read_off, noise)
