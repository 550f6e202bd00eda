"""The cost of a round: what can be counted by hand is, and no time is claimed."""

from collections import Counter

import pytest

from cemlib.labelling.cost import Row, measured


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return measured([256, 512], participants=3, classes=4, images=8)


def test_masks_may_be_too_narrow_for_noise() -> None:
    assert len(measured([256], participants=3, images=1, mask_bits=8)) == 3 * 2 * 2


def test_every_combination_has_a_row(rows: list[Row]) -> None:
    keys = [(r["key_bits"], r["packing"], r["blinding"], r["precomputed"]) for r in rows]
    assert len(set(keys)) == len(keys) == 2 * 3 * 2 * 2
    assert Counter(r["packing"] for r in rows) == {"none": 8, "label": 8, "images": 8}


def test_ciphertexts_and_bytes_are_those_of_the_slots(rows: list[Row]) -> None:
    # 3 (2^12 + 2^52 - 1) < 2^54: 4 slots at 256 bits (255 // 54), 9 at 512 (511 // 54).
    for row in rows:
        width = 2 * row["key_bits"] // 8
        images = 8 if row["packing"] == "images" else 1
        slots = {"none": 1, "label": 4, "images": 511 // 54 if row["key_bits"] == 512 else 4}
        needed = -(-4 * images // slots[row["packing"]])
        assert row["ciphertexts"] * images == needed
        assert row["bytes"] * images == 3 * (2 * 35 + 32 + 2 * needed * width + 32 * images)
