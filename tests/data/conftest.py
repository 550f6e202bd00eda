"""Fixtures of the data tests."""

from pathlib import Path

import pytest
from image_folders import Maker, write_class


@pytest.fixture
def make_folder(tmp_path: Path) -> Maker:
    """Write random 8x8 PNG images: {"train/cat": 10, ...} -> the folder that holds them."""

    def make(counts: dict[str, int], shape: tuple[int, ...] = (8, 8, 3)) -> Path:
        root = tmp_path / "images"
        for seed, (place, count) in enumerate(counts.items()):
            write_class(root / place, count, seed, shape)
        return root

    return make
