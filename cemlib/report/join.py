"""Several finished studies in one table: every score, and its difference to the first study.

Their runs are independent: a seed means the same number in each study, but other images or another
network, so nothing is paired. Differences are between means over seeds (Welch), within a defence.
As within a study, only the worst-case MSE is tested.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from cemlib.records.files import write_text
from cemlib.records.scores import (
    ATTACK_SCORES,
    IDENTIFICATION,
    MARK,
    RUN_SCORES,
    SCORES,
    TESTED,
    Score,
)
from cemlib.report.cells import NONE, spread, with_failures
from cemlib.report.claims import is_shown, is_unconverged
from cemlib.report.collect import collect
from cemlib.report.comparisons import verdicts
from cemlib.report.statistics import holm, mean_interval, welch_difference
from cemlib.report.tables import records
from cemlib.report.worst_case import unconverged, worst_case
from cemlib.report.writer import Document, Row, Table, csv, latex, markdown

_NOTE = (
    "Mean over seeds ± half width of its 95 % Student-t interval. Δ: the mean minus that of"
    " {first}, ± half width of Welch's 95 % interval; runs of different studies are no pairs. With"
    " *, the test of no difference is rejected at 5 % after Holm's correction over all {tests}"
    " differences of the MSE, the one score that is tested. Arrows point to the better side for the"
    " defender. Another error on other images may say more of the images than of the defence:"
    " within a study, its own comparisons.csv compares defences."
)

Metrics = tuple[Sequence[Path], Sequence[Path]]
Results = tuple[pd.DataFrame, pd.DataFrame]
Key = tuple[str, str, str]  # defence, knowledge and metric


def write_joined(studies: Mapping[str, Metrics], out: Path) -> list[Path]:
    """Join finished studies and write the table as CSV, Markdown and LaTeX.

    Args:
        studies: by name, ``metrics.json`` of every run and of every attack; the first one is what
            the others are compared with.
        out: the files to write, without their ending.

    Returns:
        The files written.

    Raises:
        FileError: if a metrics file is missing or wrong (see `collect`).
    """
    table = joined({name: collect(*files) for name, files in studies.items()})
    document = _document(table)
    texts = {".csv": csv(table), ".md": markdown(document), ".tex": latex(document)}
    written = [out.with_name(out.name + ending) for ending in texts]
    for path, text in zip(written, texts.values(), strict=True):
        write_text(path, text)
    return written


def joined(studies: Mapping[str, Results]) -> pd.DataFrame:
    """Return one row per defence, knowledge, score and study.

    Worst-case MSE, SSIM, PSNR and identification on one release, per knowledge; top-1 and leakage
    bound, without one.

    Args:
        studies: by name, runs and attacks as `collect` returns them; the first is compared with.

    Returns:
        ``mean`` with its 95 % t interval over the seeds that have a result, ``n_failed`` of the
        ``n_seeds`` have none, ``n_unconverged`` are of an attack that had not converged. ``delta``
        is the mean minus that of the same defence in the first study, with Welch's interval and p;
        empty for the first study itself, and for defences that it lacks. Only the MSE has a p;
        ``p_holm`` is corrected over all of these. ``unconverged`` (here of studies) and ``verdict``
        are as in comparisons.csv.
    """
    scores = {name: dict(_samples(*results)) for name, results in studies.items()}
    first = next(iter(scores))
    keys = dict.fromkeys(key for found in scores.values() for key in found)
    rows = [
        _row(study, first, key, found[key], scores[first].get(key))
        for key in keys
        for study, found in scores.items()
        if key in found
    ]
    table = pd.DataFrame(rows)
    tested = (table["metric"] == TESTED) & (table["study"] != first)
    table.loc[~tested, "p"] = math.nan
    table["p_holm"] = holm(table["p"].tolist())
    found = verdicts(table["delta"], table["p_holm"], table["unconverged"] != "")
    table["verdict"] = np.where(tested, found, "")
    return table


def _samples(runs: pd.DataFrame, attacks: pd.DataFrame) -> Iterator[tuple[Key, pd.DataFrame]]:
    """Yield the results that have a score, of one defence with one knowledge."""
    strongest = worst_case(attacks)
    identified = [IDENTIFICATION] if strongest[IDENTIFICATION].notna().any() else []
    seen = [("", RUN_SCORES, runs)]
    for knowledge, rows in strongest.groupby("knowledge", sort=False):
        seen.append((str(knowledge), (*ATTACK_SCORES, *identified), rows))
    for known, metrics, results in seen:
        for defence, group in results.groupby("defence", sort=False):
            yield from (((str(defence), known, metric), group) for metric in metrics)


def _row(
    study: str, first: str, key: Key, ours: pd.DataFrame, base: pd.DataFrame | None
) -> dict[str, object]:
    defence, knowledge, metric = key
    values, others = ours[metric].tolist(), []
    if base is not None and study != first:
        others = base[metric].tolist()
    found, delta = mean_interval(values), welch_difference(values, others)
    sides = {} if study == first else {study: ours, first: ours.head(0) if base is None else base}
    late = [name for name, side in sides.items() if unconverged(side, metric).any()]
    return {
        "study": study,
        "defence": defence,
        "knowledge": knowledge,
        "metric": metric,
        "n_seeds": len(ours),
        "n_failed": len(ours) - found.n,
        "n_unconverged": int(unconverged(ours, metric).sum()),
        "mean": found.mean,
        "ci_low": found.low,
        "ci_high": found.high,
        "first": first,
        "delta": delta.mean,
        "delta_low": delta.low,
        "delta_high": delta.high,
        "p": delta.p,
        "p_holm": math.nan,
        "unconverged": ", ".join(late),
    }


def _document(table: pd.DataFrame) -> Document:
    """Return a table for each score and knowledge of `joined`, defences as rows."""
    tables = [
        _table(part, score, str(knowledge))
        for name, score in SCORES.items()
        for knowledge, part in table[table["metric"] == name].groupby("knowledge", sort=False)
    ]
    first, tests = "".join(table["first"].head(1)), int(table["p"].notna().sum())
    return Document("Studies side by side", [_NOTE.format(first=first, tests=tests)], tables)


def _table(part: pd.DataFrame, score: Score, knowledge: str) -> Table:
    """Lay out a row per defence, and for each study its mean and the difference to the first."""
    decimals = score.places(score.scale * part["mean"])
    names = list(part["defence"].unique())
    columns: list[tuple[str, list[str]]] = [("defence", names)]
    for study, rows in part.groupby("study", sort=False):
        found = list(records(rows.set_index("defence").reindex(names)))
        columns.append((str(study), [_mean(row, score, decimals) for row in found]))
        if study != part["first"].iloc[0]:
            columns.append((f"Δ, {study}", [_delta(row, score, decimals) for row in found]))
    titles, cells = zip(*columns, strict=True)
    caption = f"{score.worst}, {knowledge}" if knowledge else score.worst
    return Table(caption, titles, tuple(zip(*cells, strict=True)))


def _mean(row: Row, score: Score, decimals: int) -> str:
    if math.isnan(row["n_seeds"]):
        return NONE
    late = row["n_unconverged"] > 0
    number = spread(row["mean"], row["ci_high"], decimals, score.scale, unconverged=late)
    return with_failures(number, row["n_failed"], row["n_seeds"])


def _delta(row: Row, score: Score, decimals: int) -> str:
    if math.isnan(row["delta"]):
        return NONE
    sign = "+" if row["delta"] >= 0 else ""
    number = spread(row["delta"], row["delta_high"], decimals, score.scale)
    return sign + number + ("*" if is_shown(row) else MARK if is_unconverged(row) else "")
