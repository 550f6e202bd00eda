"""Captions and places of tables, figures and pictures in the page of `snakemake --report`."""

from dataclasses import dataclass
from pathlib import Path

from cemlib.report.figures import PICTURES, drawing

TABLES = "Tables"
EVERY = "all defences"
_TABLES = {
    "summary": "Means over the seeds ± half the width of the 95 % Student-t interval; the arrow at"
    " a score points to the better side for the defender. The first table is the worst case, the"
    " strongest attack on each run, and the one to quote; tables for each attack follow. failed"
    " counts diverged runs.",
    "comparisons": "Each defence minus the reference on the same seeds, with a paired 95 %"
    " interval. The worst-case MSE is tested: judge by its last column, at 5 % after Holm's"
    " correction over all defences and knowledges. The other scores have intervals and no verdict."
    " No difference shown is no evidence of equality. Unconverged: no verdict is drawn, for an"
    " attack on either side had not converged.",
}
_STRIP = (
    "Originals above, reconstructions below: this attack on this defence's run of the first seed."
    " Grey throughout: the run or the attack failed."
)


@dataclass(frozen=True)
class Entry:
    """Place of one file: its caption, two levels of categories, and its title."""

    caption: str
    category: str
    subcategory: str
    title: str


def table_entry(table: Path) -> Entry:
    """Return the place of a table by its file."""
    return Entry(_TABLES[table.stem], TABLES, EVERY, table.stem)


def figure_entry(path: Path) -> Entry:
    """Return the place of a figure by its file."""
    found = drawing(path.stem)
    return Entry(found.figure.caption, found.figure.category, EVERY, found.title)


def strip_entry(strip: Path, defence: str) -> Entry:
    """Return the place of the pictures that one attack on one run of a defence left."""
    attack, _, knowledge = strip.parent.name.rpartition("-")
    return Entry(_STRIP, PICTURES, defence, f"{attack}, {knowledge}")
