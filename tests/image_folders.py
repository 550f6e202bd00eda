"""Random images for image folders made on the spot."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image

Maker = Callable[..., Path]


def write_class(folder: Path, count: int, seed: int, shape: tuple[int, ...] = (8, 8, 3)) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    for index in range(count):
        pixels = rng.integers(0, 256, shape, dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{index:03}.png")
