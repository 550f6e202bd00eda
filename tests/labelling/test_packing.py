"""Packing at its extremes, what a setting refuses, and what masks and noise show."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare, kstest, norm

from cemlib.labelling.errors import LabellingError, MessageError
from cemlib.labelling.packing import draw_masks, draw_noise, pack, plaintext_count, unpack
from cemlib.labelling.setting import Setting

settings = st.builds(
    Setting,
    participants=st.integers(2, 40),
    classes=st.integers(2, 12),
    noise_std=st.just(1.0),
    key_bits=st.sampled_from([256, 512, 1024, 2048]),
    mask_bits=st.integers(12, 42),
    packing=st.sampled_from(["none", "images"]),
    insecure_for_testing=st.just(True),
)


def bound(setting: Setting) -> int:
    """The largest counter of one participant, from the definition: a vote and the largest mask."""
    step = 4096
    return step * 1 + (step * 2**setting.mask_bits - 1)


@given(setting=settings, queries=st.integers(1, 9))
def test_sums_of_the_largest_counters_do_not_overflow(setting: Setting, queries: int) -> None:
    largest = np.full((queries, setting.classes), bound(setting), np.int64)
    summed = [setting.participants * plaintext for plaintext in pack(setting, largest)]
    assert max(summed) < 2 ** (setting.key_bits - 1)  # below every n of that many bits
    assert np.array_equal(unpack(setting, summed, queries), setting.participants * largest)


@given(setting=settings, queries=st.integers(1, 5), seed=st.integers(0, 2**32))
def test_sums_of_plaintexts_are_plaintexts_of_sums(
    setting: Setting, queries: int, seed: int
) -> None:
    generator = np.random.default_rng(seed)
    shape = (3, queries, setting.classes)
    some = generator.integers(0, bound(setting), shape, endpoint=True) // 3 * 2
    summed = [sum(column) for column in zip(*(pack(setting, one) for one in some), strict=True)]
    assert np.array_equal(unpack(setting, summed, queries), some.sum(0))


def test_the_example_of_the_page() -> None:
    # 15 (2^12 + 2^52 - 1) < 2^56, and 36 * 56 = 2016 <= 2047: 3.6 images of 10 classes.
    setting = Setting(participants=15, classes=10, noise_std=4.0)
    assert (setting.slot_bits, setting.slots) == (56, 36)
    counts = {"none": 180, "images": 5}
    for packing, count in counts.items():
        packed = replace(setting, packing=packing)
        assert plaintext_count(packed, 18) == len(pack(packed, np.ones((18, 10), int))) == count


TWO = Setting(2, 2, 1.0, key_bits=256, insecure_for_testing=True)


def test_two_counters_worked_out_by_hand() -> None:
    setting = replace(TWO, mask_bits=11)
    assert setting.largest == 2 * (4096 + 4096 * 2048 - 1)
    assert setting.slot_bits == 25
    assert pack(setting, np.array([[3, 5]])) == [3 + 5 * 2**25]


@pytest.mark.parametrize("value", [-1, 2**55])
def test_counters_that_do_not_fit_are_refused(value: int) -> None:
    with pytest.raises(LabellingError, match="counters must be in"):
        pack(TWO, np.array([[0, value]]))


@pytest.mark.parametrize(
    ("plaintexts", "message"),
    [
        ([0, 0], "expected 1 plaintexts, got 2"),
        ([1 << 250], "longer than"),
        ([2**54 - 1], "larger than"),
    ],
)
def test_plaintexts_of_no_honest_sum_are_refused(plaintexts: list[int], message: str) -> None:
    with pytest.raises(MessageError, match=message):
        unpack(TWO, plaintexts, 1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"participants": 1}, "participants: 1 must be at least 2"),
        ({"classes": 1}, "classes: 1"),
        ({"mask_bits": 0}, "mask_bits: 0"),
        ({"mask_bits": 60}, "at most 62 fit"),
        ({"noise_std": -1.0}, "noise_std"),
        ({"noise_std": float("nan")}, "noise_std"),
        ({"noise_std": float("inf")}, "noise_std"),
        ({"noise_std": 1e-4}, "finer than the grid"),
        *(({"key_bits": bits}, "from 256 to 3072") for bits in (254, 257, 3074, 0, -2)),
        *(({"key_bits": bits}, "insecure_for_testing") for bits in (256, 2046)),
        ({"packing": "all"}, "packing"),
        ({"blinding": "none"}, "blinding"),
    ],
)
def test_settings_that_do_not_hold_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(LabellingError, match=message):
        Setting(**{"participants": 15, "classes": 10, "noise_std": 4.0, **change})


QUERIES = 4000
NOISY = Setting(15, 5, 4.0, key_bits=256, insecure_for_testing=True)


def test_masks_are_uniform_over_their_range() -> None:
    masks = draw_masks(NOISY, QUERIES)
    assert masks.shape == (QUERIES, 5)
    assert not np.any(masks == draw_masks(NOISY, QUERIES))
    assert masks.min() >= 0
    assert masks.max() < 2**52
    for counts in (np.bincount((masks >> 48).ravel()), np.bincount((masks & 15).ravel())):
        assert len(counts) == 16
        assert chisquare(counts).pvalue > 1e-6


def test_noise_of_the_system_is_normal_with_its_share_of_the_variance() -> None:
    noise = draw_noise(NOISY, QUERIES, None) / 4096
    assert kstest(noise.ravel(), norm(scale=4 / 15**0.5).cdf).pvalue > 1e-6


@pytest.mark.parametrize(("byte", "sign"), [(b"\x00", -1), (b"\xff", 1)])
def test_the_extreme_words_of_the_system_give_finite_noise(
    byte: bytes, sign: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("secrets.token_bytes", lambda count: count * byte)
    deviations = draw_noise(NOISY, 1, None) / 4096 / (4 / 15**0.5)
    assert deviations == pytest.approx(sign * norm.isf(2**-53), rel=1e-4)


def test_noise_of_a_seed_is_repeated_and_rounded_to_the_grid() -> None:
    first = draw_noise(NOISY, 7, np.random.default_rng(3))
    exact = np.random.default_rng(3).standard_normal((7, 5)) * 4 / 15**0.5
    assert np.abs(first / 4096 - exact).max() <= 0.5 / 4096
    assert not np.array_equal(draw_noise(NOISY, 7, None), draw_noise(NOISY, 7, None))


@pytest.mark.parametrize("noise_std", [0.1, 4.0])
def test_the_plain_part_does_not_betray_the_noise(noise_std: float) -> None:
    setting = replace(NOISY, noise_std=noise_std)
    noise = draw_noise(setting, QUERIES, np.random.default_rng(0))
    fraction = (draw_masks(setting, QUERIES) + noise) % 4096
    counts = np.bincount((fraction // 256).ravel(), minlength=16)
    assert chisquare(counts).pvalue > 1e-6
    assert abs(np.corrcoef(fraction.ravel(), noise.ravel())[0, 1]) < 6 / np.sqrt(noise.size)
