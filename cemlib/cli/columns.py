"""Tables of plain text: aligned columns, of which the last is wrapped in a terminal."""

import math
import shutil
import sys
import textwrap
from collections.abc import Sequence
from typing import Any

GAP = 2
NARROWEST = 20  # of a last column


def aligned(rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> str:
    """Return rows of cells as lines; in a pipe a row is one line, however long.

    Args:
        rows: all of the same length.
        right: columns of numbers, whose ends are aligned.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    starts = sum(widths[:-1]) + GAP * (len(widths) - 1)
    room = _room() - starts
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if place in right else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        text = cells[-1].rstrip()
        last = _wrapped(text, room) if len(text) > room else [text]
        first = (" " * GAP).join([*cells[:-1], last[0]])
        lines += [first, *(" " * starts + line for line in last[1:])]
    return "\n".join(line.rstrip() for line in lines)


def figure(value: Any, digits: int = 4) -> str:
    """Return a number with some significant digits, or a dash for one that is not there."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "-"
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.{digits}g}" if isinstance(value, float) else str(value)


def _wrapped(text: str, room: int) -> list[str]:
    return textwrap.wrap(text, max(room, NARROWEST), break_on_hyphens=False)


def _room() -> int:
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize
