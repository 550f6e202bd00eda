"""The paired differences as tables for people: one for each score and knowledge."""

import pandas as pd

from cemlib.marks import marked
from cemlib.report.cells import interval, number, signed
from cemlib.report.claims import is_unconverged
from cemlib.report.writer import Column, Document, Row, Table, laid_out
from cemlib.scores import SCORES

_NOTES = (
    "Paired over the seeds: defence minus reference. MSE, SSIM, PSNR and identification are of"
    " the worst case on one release of an image.",
    "The 95 % interval is Student's, over the seeds: what training again would give. The one over"
    " seeds and images is a bootstrap: what other test images of the same kind would give.",
    "g_z is the difference in standard deviations of the paired differences, corrected for few"
    " seeds. p is of the paired t-test; the permutation test of signs beside it cannot go below"
    " 2 / 2^n with n pairs.",
    "The verdict is at 5 % after Holm's correction over all comparisons of the study, those of"
    " every table here.",
)


def comparisons_document(comparisons: pd.DataFrame) -> Document:
    """Return the tables of `cemlib.report.comparisons.comparisons_table`."""
    families = comparisons.groupby(["metric", "knowledge"], sort=False)
    tables = [_table(str(metric), str(known), rows) for (metric, known), rows in families]
    return Document("Differences to the reference", _NOTES, tables)


def _table(metric: str, knowledge: str, rows: pd.DataFrame) -> Table:
    score = SCORES[metric]
    where = f", {knowledge}" if knowledge else ""
    caption = f"{score.difference}{where}: difference to {rows['reference'].iloc[0]}"
    return laid_out(caption, rows, _columns(score.scale))


def _columns(scale: int) -> list[Column]:
    difference = signed("difference", scale=scale)

    def flagged(row: Row) -> str:
        return marked(difference(row), is_unconverged(row))

    return [
        ("defence", number("defence")),
        ("difference", flagged),
        ("95 % interval", interval("ci", scale=scale)),
        ("over seeds and images", interval("boot", scale=scale)),
        ("g_z", signed("g_z")),
        ("p", number("p")),
        ("p, permutation", number("p_permutation")),
        ("p, Holm in this table", number("p_holm")),
        ("p, Holm in the study", number("p_holm_study")),
        ("pairs of seeds", number("n_pairs", 6)),
        ("verdict", number("verdict")),
    ]
