"""The texts of `cemlib compare`."""

import json
import math
import textwrap
from dataclasses import asdict

from cemlib.cli.columns import aligned, figure
from cemlib.files import finite
from cemlib.marks import NOTE, marked
from cemlib.report.paired import Comparison, Row

_HOW = """\
Means over the common seeds. difference: first minus second, +- half the width
of the 95 % Student-t interval of the paired differences. g_z: difference in
standard deviations of those, corrected for few seeds. p: paired t test,
two-sided, of that row alone, as in comparisons.csv. p Holm: corrected for all
{tests} rows that have a p; rows overlap, so it errs on the careful side."""


def as_json(found: Comparison, first: str, second: str) -> str:
    """A comparison as one JSON object."""
    told = {
        "first": first,
        "second": second,
        "notes": found.notes,
        "rows": [asdict(row) for row in found.rows],
    }
    return json.dumps(finite(told), indent=2)


def as_text(found: Comparison, first: str, second: str) -> str:
    """A comparison for people: a block for each attack and knowledge."""
    shown = [row for row in found.rows if _has_value(row)]
    heads = ("  score", "first", "second", "difference", "+-", "g_z", "p", "p Holm")
    header, *lines = aligned([heads, *map(_cells, shown)], right=range(1, 8)).splitlines()
    titles = dict.fromkeys(map(_title, shown))
    blocks = {
        t: [line for row, line in zip(shown, lines, strict=True) if _title(row) == t]
        for t in titles
    }
    table = [header, *(line for title, rows in blocks.items() for line in (title, *rows))]
    tests = sum(not math.isnan(row.p_holm) for row in shown)
    names = f"first: {first}\nsecond: {second}"
    parts = [names, "\n".join(found.notes), "\n".join(table), _HOW.format(tests=tests)]
    if any(any(row.unconverged) for row in shown):
        parts.append(textwrap.fill(NOTE, 80))
    return "\n\n".join(parts)


def _title(row: Row) -> str:
    """What stands above the rows of an attack with one knowledge."""
    name = f"{row.attack}, {row.knowledge}" if row.attack else "accuracy and leakage bound"
    return f"{name}: {row.difference.n} pairs"


def _has_value(row: Row) -> bool:
    """Whether either side has the score: failed results have none."""
    return not (math.isnan(row.first) and math.isnan(row.second))


def _cells(row: Row) -> tuple[str, ...]:
    found = row.difference
    half = found.high - found.mean
    means = map(figure, (row.first, row.second, found.mean))
    spread = (figure(number, digits=3) for number in (half, found.g_z))
    tests = (figure(number, digits=2) for number in (found.p, row.p_holm))
    return (marked(f"  {row.score}", any(row.unconverged)), *means, *spread, *tests)
