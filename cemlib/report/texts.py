"""Lay out summary and comparisons as tables for people, by attack, score and knowledge."""

import math
from collections.abc import Sequence

import pandas as pd

from cemlib.records.layout import KNOWLEDGES
from cemlib.records.scores import IDENTIFICATION, SCORES, TESTED
from cemlib.report.cells import (
    NONE,
    difference,
    formatted,
    interval,
    mean,
    number,
    spread,
    with_failures,
)
from cemlib.report.claims import warnings
from cemlib.report.tables import records
from cemlib.report.worst_case import WORST_CASE, release_counts, worst_case_name
from cemlib.report.writer import Column, Document, Row, Table, laid_out

STRONGEST = "strongest attack"
_WORST = (
    "The strongest attack on a run is the one with the lowest MSE. SSIM and PSNR are of that same"
    " attack; the identified share is the largest of any attack."
)
_COMPARED = (
    "Defence minus reference, paired over the seeds, on one release of an image. MSE and SSIM are"
    " of the attack with the lowest MSE; the identified share is the largest of any attack.",
    "The 95 % interval is Student's over the seeds and covers repeated training. The interval"
    " over seeds and images, in closed form, also covers other test images of the same kind.",
    "Only the MSE is tested, by a paired t-test. The verdict is at 5 % after Holm's correction over"
    " all defences and both kinds of attacker knowledge. Other scores have no verdict, whatever"
    " their intervals.",
)
_EQUAL = (
    "Each family's mean curve over its settings is read at the same test accuracy. Numbers are"
    " means ± half the width of the 95 % interval over the seeds, from a jackknife. A dash in place"
    " of a mean says that the curve of all seeds, or of all but one, does not reach the accuracy.",
    "The difference is the family's MSE minus that of the first family, on the seeds that both"
    " have. It is tested by a paired t-test, with Holm's correction over all families, accuracies"
    " and attackers.",
)
_DETECTABLE = (
    "The detectable difference is one that the test, without that correction, finds with a"
    " probability of 80 %."
)
_AT_ACCURACY: tuple[Column, ...] = (  # besides the MSE, whose decimals depend on its values
    ("attacker", number("knowledge")),
    ("family", number("family")),
    ("SSIM ↓", mean("ssim", 3, late="n_unconverged")),
    ("identified [%] ↓", mean("recon_top1", 1, 100, late="n_unconverged_recon")),
    (SCORES["leakage_nats"].heading, mean("leakage_nats", 1)),
    ("difference in MSE", difference()),
    ("95 % interval", interval()),
    ("p (Holm)", number("p_holm", ".2g")),
    ("detectable", number("detectable", ".2g")),
    ("seeds", number("n_seeds")),
)
TOO_WIDE = (SCORES["leakage_nats"].heading, "95 % interval", "detectable")  # for a paper


def summary_document(summary: pd.DataFrame) -> Document:
    """Return the tables of the summary: the worst case first, then each attack."""
    worst, *more = _worst_cases(summary)
    attacks = [name for name in summary["attack"].unique() if name not in (worst, *more)]
    tables = [
        *_tables(summary, worst, "Worst case: the attack with the lowest MSE on each run"),
        *([_releases_table(summary)] if more else []),
        *(table for name in attacks for table in _tables(summary, name, f"Attack: {name}")),
    ]
    return Document("Accuracy and privacy", _notes(summary), tables)


def paper_document(
    summary: pd.DataFrame, left_out: Sequence[str] = (SCORES["psnr"].heading, STRONGEST)
) -> Document:
    """Return the worst case for a paper: a narrow table for each knowledge."""
    tables = _tables(summary, WORST_CASE, "The attack with the lowest MSE on each run", left_out)
    return Document("Accuracy and privacy", _notes(summary), tables)


def comparisons_document(comparisons: pd.DataFrame) -> Document:
    """Return the tables of `cemlib.report.comparisons.comparisons_table`."""
    families = comparisons.groupby(["metric", "knowledge"], sort=False)
    tables = [_differences(str(score), str(known), rows) for (score, known), rows in families]
    return Document("Differences from the reference", _COMPARED, tables)


def tradeoff_document(tradeoff: pd.DataFrame, left_out: Sequence[str] = ()) -> Document:
    """Return `cemlib.report.at_accuracy.tradeoff_table` as a table per knowledge and accuracy."""
    parts = tradeoff.groupby(["knowledge", "accuracy"], sort=False)
    tables = [
        at_accuracy(rows, f"At an accuracy of {accuracy:g} %, {knowledge}", ["attacker", *left_out])
        for (knowledge, accuracy), rows in parts
    ]
    notes = [*_EQUAL] if tables else ["No accuracy lies on the curves of all sweeps."]
    notes += [_DETECTABLE] if tables and "detectable" not in left_out else []
    return Document("Privacy at equal accuracy", notes, tables)


def at_accuracy(rows: pd.DataFrame, caption: str = "", left_out: Sequence[str] = ()) -> Table:
    """Return rows of `cemlib.report.at_accuracy.tradeoff_table`, laid out as a table."""
    attacker, family, *scores = _AT_ACCURACY
    mse = mean("mse", SCORES["mse"].places(rows["mse_mean"]), late="n_unconverged")
    every = (attacker, family, (SCORES["mse"].heading, mse), *scores)
    columns = [column for column in every if column[0] not in left_out]
    # Without n_failed, a missing mean is a dash and not "failed": the curve does not reach the
    # accuracy, whether or not some results failed.
    return laid_out(caption, rows.drop(columns="n_failed"), columns)


def _notes(summary: pd.DataFrame) -> list[str]:
    seeds = _span(summary["n_seeds"])
    values = (
        "One seed, therefore no intervals."
        if seeds == "1"
        else f"Mean over {seeds} seeds ± half width of the 95 % Student-t interval."
    )
    arrows = "Arrows point to the better side for the defender."
    whole = summary["knowledge"] == KNOWLEDGES[0]  # which is attacked on every test image
    tested, bound = (_span(n) for n in (summary.loc[whole, "n_images"], summary["leakage_images"]))
    estimated = f"; the leakage bound is an estimate from {bound} images" if bound else ""
    images = f"Top-1 is over all {f'{tested} ' if tested else ''}test images{estimated}."
    captions = "The captions name the number of images that an attack's scores are of."
    return [f"{values} {arrows}", _WORST, f"{images} {captions}", *warnings(summary)]


def _span(counts: "pd.Series[int]") -> str:
    """Return ``300``, or ``280 to 300`` if counts differ; an empty text if there are none."""
    known = counts.dropna()
    if known.empty:
        return ""
    fewest, most = int(known.min()), int(known.max())
    return f"{fewest:,}" if fewest == most else f"{fewest:,} to {most:,}"


def _with_images(caption: str, counts: "pd.Series[int]") -> str:
    images = _span(counts)
    return f"{caption} ({images} images)" if images else caption


def _worst_cases(summary: pd.DataFrame) -> list[str]:
    """Return the names of the worst cases in the column ``attack``, from one release to many."""
    return [worst_case_name(queries) for queries in release_counts(summary)]


def _tables(
    summary: pd.DataFrame, attack: str, title: str, left_out: Sequence[str] = ()
) -> list[Table]:
    """Lay out one attack: for each knowledge a row per defence."""
    rows = summary[summary["attack"] == attack]
    tables = []
    for knowledge, part in rows.groupby("knowledge", sort=False):
        columns = [("defence", number("defence")), *(_score(part, name) for name in SCORES)]
        if attack == WORST_CASE:
            columns.append((STRONGEST, lambda row: formatted(row["strongest"]) or NONE))
        found = part.set_index("defence").reindex(rows["defence"].unique()).reset_index()
        caption = _with_images(f"{title}, {knowledge}", part["n_images"])
        kept = [column for column in columns if column[0] not in left_out]
        tables.append(laid_out(caption, found, kept))
    return tables


def _releases_table(summary: pd.DataFrame) -> Table:
    """Lay out the MSE of the worst case: for each knowledge a column per number of releases."""
    rows = summary[summary["attack"].isin(_worst_cases(summary))]
    names = rows["defence"].unique()
    columns = {"defence": list(names)}
    for (knowledge, queries), part in rows.groupby(["knowledge", "queries"], sort=False):
        _, cell = _score(part, TESTED)
        found = records(part.set_index("defence").reindex(names))
        columns[f"n = {queries}, {knowledge}"] = [cell(row) for row in found]
    caption = (
        "Worst case against the number of releases: "
        "MSE ↑ of the strongest attack on at most n releases of an image"
    )
    return Table(caption, list(columns), list(zip(*columns.values(), strict=True)))


def _score(rows: pd.DataFrame, name: str) -> Column:
    """Return the column of a score, with the decimals that its smallest mean needs."""
    score = SCORES[name]
    decimals = score.places(score.scale * rows[f"{name}_mean"])
    late = "n_unconverged_recon" if name == IDENTIFICATION else "n_unconverged"

    def cell(row: Row) -> str:
        if math.isnan(row["n_seeds"]):
            return NONE
        mean, high = row[f"{name}_mean"], row[f"{name}_ci_high"]
        is_late = not score.of_runs and row[late] > 0
        text = spread(mean, high, decimals, score.scale, unconverged=is_late)
        failed = row["n_failed_runs" if score.of_runs else "n_failed"]
        return with_failures(text, failed, row["n_seeds"])

    return score.heading, cell


def _differences(metric: str, knowledge: str, rows: pd.DataFrame) -> Table:
    score = SCORES[metric]
    where = f", {knowledge}" if knowledge else ""
    caption = f"{score.difference}{where}: difference from {rows['reference'].iloc[0]}"
    columns: list[Column] = [
        ("defence", number("defence")),
        ("difference", difference(score.scale)),
        ("95 % interval", interval("ci", scale=score.scale)),
        ("over seeds and images", interval("boot", scale=score.scale)),
        ("pairs of seeds", number("n_pairs", ".0f")),
    ]
    if metric == TESTED:
        tests = {"p": "p", "p, Holm": "p_holm", "verdict": "verdict"}
        columns += [(title, number(name)) for title, name in tests.items()]
    return laid_out(_with_images(caption, rows["n_images"]), rows, columns)
