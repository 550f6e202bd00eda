"""Several finished studies in one table: every score, and its difference to the first study.

Their runs are independent: a seed means the same number in each study, but other images or another
network, so nothing is paired. Differences are between means over seeds (Welch), within a defence.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from cemlib.files import write_text
from cemlib.report.collect import collect
from cemlib.report.join_text import joined_document
from cemlib.report.statistics import holm, mean_interval
from cemlib.report.verdicts import unconverged, verdicts
from cemlib.report.welch import welch_difference
from cemlib.report.worst_case import worst_case
from cemlib.report.writer import csv, latex, markdown
from cemlib.scores import ATTACK_SCORES, IDENTIFICATION, RUN_SCORES

COLUMNS = (
    "study",
    "defence",
    "knowledge",
    "metric",
    "n_seeds",
    "n_failed",
    "n_unconverged",
    "mean",
    "ci_low",
    "ci_high",
    "first",
    "delta",
    "delta_low",
    "delta_high",
    "p",
    "p_holm",
    "unconverged",
    "verdict",
)

Metrics = tuple[Sequence[Path], Sequence[Path]]
Results = tuple[pd.DataFrame, pd.DataFrame]
Key = tuple[str, str, str]  # defence, knowledge and metric


@dataclass(frozen=True)
class Sample:
    """A score of one defence: a value per seed, and how many rest on an unconverged attack."""

    values: list[float]
    unconverged: int


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
    document = joined_document(table)
    texts = {".csv": csv(table), ".md": markdown(document), ".tex": latex(document)}
    written = [out.with_name(out.name + ending) for ending in texts]
    for path, text in zip(written, texts.values(), strict=True):
        write_text(path, text)
    return written


def joined(studies: Mapping[str, Results]) -> pd.DataFrame:
    """One row per defence, knowledge, score and study.

    Worst-case MSE, SSIM, PSNR and identification on one release, per knowledge; top-1 and leakage
    bound, without one.

    Args:
        studies: by name, runs and attacks as `collect` returns them; the first is compared with.

    Returns:
        ``mean`` with its 95 % t interval over the seeds that have a result, ``n_failed`` of the
        ``n_seeds`` have none, ``n_unconverged`` are of an attack that had not converged. ``delta``
        is the mean minus that of the same defence in the first study, with Welch's interval and p;
        empty for the first study itself, and for defences that it lacks. ``p_holm`` is corrected
        over all rows of the table that have a p. ``unconverged`` (here of studies) and ``verdict``
        are as in comparisons.csv.
    """
    scores = {name: dict(_samples(*results)) for name, results in studies.items()}
    first = next(iter(scores))
    keys = dict.fromkeys(key for found in scores.values() for key in found)
    rows = [
        _row(study, first, key, found[key], scores[first].get(key, Sample([], 0)))
        for key in keys
        for study, found in scores.items()
        if key in found
    ]
    table = pd.DataFrame(rows, columns=list(COLUMNS))
    table["p_holm"] = holm(table["p"].tolist())
    barred = table["unconverged"] != ""
    table["verdict"] = verdicts(table["delta"], table["p_holm"], barred)
    table.loc[table["study"] == first, "verdict"] = ""
    return table


def _samples(runs: pd.DataFrame, attacks: pd.DataFrame) -> Iterator[tuple[Key, Sample]]:
    for defence, group in runs.groupby("defence", sort=False):
        for metric in RUN_SCORES:
            yield (str(defence), "", metric), _sample(group, metric)
    strongest = worst_case(attacks)
    identified = [IDENTIFICATION] if strongest[IDENTIFICATION].notna().any() else []
    for knowledge, seen in strongest.groupby("knowledge", sort=False):
        for defence, group in seen.groupby("defence", sort=False):
            for metric in (*ATTACK_SCORES, *identified):
                yield (str(defence), str(knowledge), metric), _sample(group, metric)


def _sample(group: pd.DataFrame, metric: str) -> Sample:
    return Sample(group[metric].tolist(), int(unconverged(group, metric).sum()))


def _row(study: str, first: str, key: Key, ours: Sample, base: Sample) -> dict[str, object]:
    found, wanted = mean_interval(ours.values), len(ours.values)
    row: dict[str, object] = dict(zip(("defence", "knowledge", "metric"), key, strict=True))
    row |= {"study": study, "n_seeds": wanted, "n_failed": wanted - found.n}
    row |= {"n_unconverged": ours.unconverged, "unconverged": "", "first": first}
    row |= {"mean": found.mean, "ci_low": found.low, "ci_high": found.high}
    if study != first:
        delta = welch_difference(ours.values, base.values)
        row |= {"delta": delta.mean, "delta_low": delta.low, "delta_high": delta.high, "p": delta.p}
        sides = ((study, ours), (first, base))
        row["unconverged"] = ", ".join(name for name, side in sides if side.unconverged)
    return row
