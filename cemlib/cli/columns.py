"""Tables of plain text in aligned columns."""

import math
from collections.abc import Sequence
from typing import Any


def aligned(rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> str:
    """Return rows of cells as lines; those in the columns `right` are aligned on the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (
        "  ".join(
            cell.rjust(width) if place in right else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    )
    return "\n".join(line.rstrip() for line in lines)


def number_text(value: Any, digits: int = 4) -> str:
    """Return a number with some significant digits, or a dash for a missing one."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "-"
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.{digits}g}" if isinstance(value, float) else str(value)
