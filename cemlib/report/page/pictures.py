"""The pictures of a study as small PNGs within the page, each of them once.

Every attack leaves two strips of originals above their reconstructions, enlarged by a whole factor
(`cemlib.report.grid.read_strip`). The page needs single images, as small as they were, and the same
original stands in many strips.
"""

import base64
from io import BytesIO
from pathlib import Path

import numpy as np
from PIL import Image

from cemlib.files import FileError
from cemlib.report.grid import Picture, read_strip


class Album:
    """Pictures by number; the same pixels have the same number."""

    def __init__(self, side: int) -> None:
        """Begin an album of images of so many pixels a side."""
        self._side = side
        self._numbers: dict[bytes, int] = {}

    @property
    def size(self) -> int:
        """Bytes of all pictures."""
        return sum(map(len, self._numbers))

    def add_strip(self, path: Path) -> list[tuple[int, int]]:
        """Put in the images of a strip.

        Returns:
            For each column the numbers of the original and of its reconstruction.

        Raises:
            FileError: if it is no strip of images of the album's size.
        """
        above, below = ([self._add(path, one) for one in row] for row in read_strip(path))
        return list(zip(above, below, strict=True))

    def encoded(self) -> list[str]:
        """The PNGs by their numbers, in base 64."""
        return [base64.b64encode(content).decode("ascii") for content in self._numbers]

    def _add(self, path: Path, picture: Picture) -> int:
        content = png(_reduced(path, picture, self._side))
        return self._numbers.setdefault(content, len(self._numbers))


def png(picture: Picture) -> bytes:
    """A picture (H, W, 3) as PNG, with one channel where all three are the same."""
    is_grey = bool((picture == picture[..., :1]).all())
    content = BytesIO()
    Image.fromarray(picture[..., 0] if is_grey else picture).save(content, "PNG", optimize=True)
    return content.getvalue()


def data_uri(content: bytes) -> str:
    """A PNG as the address of a picture."""
    return f"data:image/png;base64,{base64.b64encode(content).decode('ascii')}"


def _reduced(path: Path, picture: Picture, side: int) -> Picture:
    """Undo the enlargement of a strip, which repeats every pixel."""
    factor, rest = divmod(len(picture), side)
    if rest or not factor:
        raise FileError(
            f"{path}: images of {len(picture)} pixels are no multiple of the data's {side};"
            " rerun the attack"
        )
    return np.ascontiguousarray(picture[::factor, ::factor])
