"""Decoding of single files: formats, depths, orientation, resizing, damage."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from broken_folders import saved
from PIL import Image

from cemlib.data import DataError
from cemlib.data.images import read_image

RNG = np.random.default_rng(0)
RGB = RNG.integers(0, 256, (16, 16, 3), dtype=np.uint8)
GREY = RNG.integers(0, 256, (16, 16), dtype=np.uint8)
LOSSLESS = ["png", "bmp", "tif", "ppm", "webp"]
LOSSY = ["jpg", "jpeg", "gif"]


def written(path: Path, image: Image.Image, **options: object) -> Path:
    if path.suffix == ".webp":
        options["lossless"] = True
    image.save(path, **options)
    return path


def channels_first(array: np.ndarray) -> np.ndarray:
    return array[None] if array.ndim == 2 else array.transpose(2, 0, 1)


@pytest.mark.parametrize("suffix", LOSSLESS)
def test_lossless_formats_keep_every_bit(tmp_path: Path, suffix: str) -> None:
    path = written(tmp_path / f"a.{suffix}", Image.fromarray(RGB))
    assert np.array_equal(read_image(path, 16, None), channels_first(RGB))


@pytest.mark.parametrize("suffix", ["png", "bmp", "tif", "pgm"])
def test_grey_files_keep_one_channel(tmp_path: Path, suffix: str) -> None:
    path = written(tmp_path / f"a.{suffix}", Image.fromarray(GREY))
    assert np.array_equal(read_image(path, 16, None), GREY[None])
    assert np.array_equal(read_image(path, 16, 3), np.stack([GREY] * 3))


def test_colour_becomes_grey_by_luminance(tmp_path: Path) -> None:
    path = written(tmp_path / "a.png", Image.fromarray(RGB))
    expected = RGB @ [0.299, 0.587, 0.114]
    assert abs(read_image(path, 16, 1)[0] - expected).max() <= 0.51


@pytest.mark.parametrize("suffix", ["png", "tif", "pgm"])
def test_sixteen_bits_are_scaled_not_clipped(tmp_path: Path, suffix: str) -> None:
    deep = np.arange(0, 65536, 256, dtype=np.uint16).reshape(16, 16)
    path = written(tmp_path / f"a.{suffix}", Image.fromarray(deep))
    expected = np.round(deep / 65535 * 255)
    assert np.array_equal(read_image(path, 16, None)[0], expected)


@pytest.mark.parametrize(
    "pixels", [np.full((8, 8), 0.5, np.float32), np.full((8, 8), 200, np.int32)]
)
def test_pixels_without_a_range_are_refused(tmp_path: Path, pixels: np.ndarray) -> None:
    path = written(tmp_path / "deep.tif", Image.fromarray(pixels))
    with pytest.raises(DataError, match=r"deep\.tif.*no defined range"):
        read_image(path, 8, None)


def half_transparent_palette() -> Image.Image:
    image = Image.new("P", (16, 16), 1)
    image.putpalette([0, 0, 0, 200, 100, 50, 9, 9, 9])
    image.paste(2, (0, 0, 8, 16))
    return image


INK = np.full((16, 16, 4), (100, 50, 0, 30), dtype=np.uint8)
LEFT = np.arange(16) < 8
# File name, image, how it is saved, the pixels wanted, how far they may be from that.
MODES: list[tuple[str, Image.Image, dict[str, Any], Any, float]] = [
    ("bit.png", Image.fromarray(GREY > 127), {}, np.where(GREY > 127, 255, 0)[None], 0),
    ("ink.tif", Image.fromarray(INK, "CMYK"), {}, (255.0 - INK[0, 0, :3]) * 225 / 255, 1),
    # A CMYK JPEG is not inverted.
    ("ink.jpg", Image.new("CMYK", (16, 16), (255, 0, 0, 0)), {}, np.array([0, 255, 255]), 3),
    # CIE's L*a*b* of red: 53.2, 80.1 and 67.2, stored as bytes.
    ("lab.tif", Image.new("LAB", (16, 16), (136, 208, 195)), {}, np.array([255, 0, 0]), 12),
    # What is transparent is composited on black.
    ("a.png", Image.fromarray(np.dstack([RGB, GREY])), {}, RGB * (GREY[..., None] / 255), 1),
    (
        "grey.png",
        Image.merge("LA", [Image.fromarray(GREY), Image.new("L", (16, 16), 51)]),
        {},
        GREY[None] * 0.2,
        1,
    ),
    (
        "palette.png",
        half_transparent_palette(),
        {"transparency": 2},
        np.where(LEFT[:, None], 0, (200, 100, 50)) + np.zeros((16, 1, 1)),
        0,
    ),
]


@pytest.mark.parametrize(("name", "image", "options", "wanted", "within"), MODES)
def test_every_mode_becomes_grey_or_rgb(
    tmp_path: Path, name: str, image: Image.Image, options: Any, wanted: Any, within: float
) -> None:
    found = read_image(written(tmp_path / name, image, **options), 16, None).astype(float)
    if wanted.ndim == 1:
        wanted = wanted[:, None, None]
    elif wanted.shape[-1] == 3:
        wanted = channels_first(wanted)
    assert found.shape[0] == wanted.shape[0]
    assert abs(found - wanted).max() <= within


@pytest.mark.parametrize("suffix", ["gif", "png", "webp", "tif"])
def test_the_first_frame_of_an_animation_counts(tmp_path: Path, suffix: str) -> None:
    frames = [Image.new("RGB", (8, 8), colour) for colour in ("red", "blue")]
    path = written(tmp_path / f"a.{suffix}", frames[0], save_all=True, append_images=frames[1:])
    with Image.open(path) as image:
        assert image.n_frames == 2
    assert read_image(path, 8, None)[:, 3, 3].tolist() == [255, 0, 0]


@pytest.mark.parametrize("orientation", [5, 6])
@pytest.mark.parametrize("suffix", ["png", "webp", "tif"])
def test_images_are_turned_upright(tmp_path: Path, suffix: str, orientation: int) -> None:
    """EXIF 2.32: the stored row 0 is the left (5, mirrored) or the right (6) side."""
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = written(tmp_path / f"a.{suffix}", Image.fromarray(RGB), exif=exif)
    expected = channels_first(np.rot90(RGB, -1) if orientation == 6 else RGB.swapaxes(0, 1))
    assert np.array_equal(read_image(path, 16, None), expected)


@pytest.mark.filterwarnings("ignore:Corrupt EXIF data")
@pytest.mark.parametrize("suffix", ["png", "webp", "tif"])
def test_a_truncated_exif_block_turns_nothing(tmp_path: Path, suffix: str) -> None:
    exif = b"Exif\0\0II*\0\x08\0\0\0\xff\xff"  # of 65,535 entries there is none
    path = written(tmp_path / f"a.{suffix}", Image.fromarray(RGB), exif=exif)
    assert np.array_equal(read_image(path, 16, None), channels_first(RGB))


def test_exif_that_is_none_is_passed_over_in_a_jpeg_and_named_in_a_png(tmp_path: Path) -> None:
    for suffix in ("jpg", "png"):
        written(tmp_path / f"a.{suffix}", Image.new("RGB", (8, 8), "red"), exif=b"Exif\0\0nonsense")
    assert abs(read_image(tmp_path / "a.jpg", 8, None)[0].astype(int) - 255).max() <= 3
    with pytest.raises(DataError, match=r"a\.png: cannot be read as an image .*replace"):
        read_image(tmp_path / "a.png", 8, None)


def triangle_weights(length: int, start: float, side: float, size: int) -> np.ndarray:
    """Bilinear weights (size, length): one triangle per output, as wide as one output pixel."""
    scale = side / size
    centres = start + (np.arange(size) + 0.5) * scale
    distance = abs(np.arange(length) + 0.5 - centres[:, None]) / max(scale, 1)
    weights = np.maximum(0, 1 - distance)
    return weights / weights.sum(1, keepdims=True)


@pytest.mark.parametrize("shape", [(40, 60), (61, 40), (8, 24), (33, 32), (16, 17)])
def test_resizing_scales_the_shorter_side_and_keeps_the_middle(
    tmp_path: Path, shape: tuple[int, int]
) -> None:
    pixels = RNG.integers(0, 256, shape, dtype=np.uint8)
    found = read_image(written(tmp_path / "a.png", Image.fromarray(pixels)), 16, None)
    side = min(shape)
    rows, columns = (triangle_weights(n, (n - side) / 2, side, 16) for n in shape)
    assert abs(found[0] - rows @ pixels @ columns.T).max() <= 1.01


@pytest.mark.parametrize("suffix", [*LOSSLESS, *LOSSY])
@pytest.mark.parametrize("kept", [0.0, 0.3, 0.6, 0.9])
def test_truncated_files_are_refused_with_their_path(
    tmp_path: Path, suffix: str, kept: float
) -> None:
    noise = RNG.integers(0, 256, (64, 64, 3), dtype=np.uint8)
    path = written(tmp_path / f"broken.{suffix}", Image.fromarray(noise))
    content = path.read_bytes()
    path.write_bytes(content[: int(kept * len(content))])
    with pytest.raises(DataError, match=rf"broken\.{suffix}: cannot be read.*replace"):
        read_image(path, 16, None)


PNG, EPS, PCX = (saved(Image.fromarray(RGB), kind) for kind in ("PNG", "EPS", "PCX"))
FLIPPED = PNG[: len(PNG) // 2] + bytes([PNG[len(PNG) // 2] ^ 4]) + PNG[len(PNG) // 2 + 1 :]


# Decoders of other formats are not tried: some of them start programs.
@pytest.mark.parametrize("content", [b"", b"hello", PNG[:8], FLIPPED, EPS, PCX])
def test_other_content_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "note.png"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"note\.png"):
        read_image(path, 16, None)


def test_a_long_thin_strip_needs_little_memory(tmp_path: Path) -> None:
    strip = np.zeros((1, 1_000_000), dtype=np.uint8)
    strip[0, 500_000] = 200
    path = written(tmp_path / "strip.png", Image.fromarray(strip))
    assert read_image(path, 256, None).max() > 0
