"""Tables of published studies at equal accuracy, in Markdown."""

import math
from collections import defaultdict
from collections.abc import Collection
from functools import cache
from pathlib import Path

import pandas as pd

from cemlib.config import Study, load
from cemlib.records.scores import marked
from cemlib.report import texts
from cemlib.report.at_accuracy import tradeoff_table
from cemlib.report.claims import is_shown
from cemlib.report.frontier import Sweeps, sweep_points
from cemlib.report.publish import published_study
from cemlib.report.tables import read_runs, records
from cemlib.report.writer import Row, Table, markdown_table

_FROZEN = ("model", "train", "attacks", "threads")  # the same in all studies of a table


def at_accuracy(root: Path, folder: str, accuracy: float, chosen: tuple[str, ...] = ()) -> str:
    """Return a Markdown table of the privacy of published sweeps at an accuracy in %.

    With chosen families it has only these. Holm's correction is over all accuracies
    that the first study names, if this is one of them.
    """
    table = _tradeoff(root, folder, None, chosen)
    if accuracy not in table["accuracy"].tolist():
        table = _tradeoff(root, folder, accuracy, chosen)
    found = texts.at_accuracy(table[table["accuracy"] == accuracy])
    return f"\n{markdown_table(found)}\n\n"


def differences(root: Path, folder: str, chosen: tuple[str, ...] = ()) -> str:
    """Return by how many % the MSE with each family exceeds that with the first, in Markdown.

    There is a column for each attacker at each accuracy of the study with at least one difference.
    Significant differences are bold, and those that rest on an attack which had not converged are
    marked. With chosen families it has only these.
    """
    table = _tradeoff(root, folder, None, chosen)
    heads, shown = ["family"], defaultdict[str, list[str]](list)
    for (accuracy, knowledge), rows in table.groupby(["accuracy", "knowledge"], sort=False):
        if rows["difference"].notna().any():
            heads.append(f"{accuracy:g} %, {knowledge}")
            first, *others = records(rows)  # which the others are compared with
            for row in others:
                shown[f"`{row['family']}`"].append(_relative(row, first["mse_mean"]))
    body = [[family, *cells] for family, cells in shown.items()]
    return f"\n{markdown_table(Table('', heads, body))}\n\n"


def _relative(row: Row, first: float) -> str:
    if not math.isfinite(row["difference"]):
        return "-"
    # The difference is over shared seeds. If the family has others, divide by the first's mean.
    base = row["mse_mean"] - row["difference"] if row["n_seeds"] == row["n_pairs"] else first
    text = f"{100 * row['difference'] / base:+z.0f} %"
    text = marked(text, row["unconverged"] != "")
    return f"**{text}**" if is_shown(row) else text


@cache
def _tradeoff(
    root: Path, folder: str, accuracy: float | None, chosen: tuple[str, ...]
) -> pd.DataFrame:
    """Return the table of `cemlib.report.at_accuracy` for published studies.

    It has the given accuracy, or all that the first study names. Chosen families are compared with
    the first of them; if this is the study's own, the correction stays that over all families.
    Several pages show the same table.
    """
    first, *others = _folders(folder)
    study, runs, attacks = published_runs(root, first)
    families = {name: dict(family) for name, family in study.families().items()}
    common = {name: sweep.plain("over") for name, sweep in study.sweeps.items()}
    for other in others:
        name, (joined, *frames) = Path(other).name, published_runs(root, other)
        own = {defence for family in joined.families().values() for defence in family}
        _check_joins(name, joined, own, study)
        for family, members in joined.families().items():
            settings = joined.sweeps[family].plain("over")
            if family in families and {*frames[0]["seed"]} != {*runs["seed"]}:
                raise ValueError(f"{name}: its {family} has other seeds than the first study's")
            if common.setdefault(family, settings) != settings:
                raise ValueError(f"{name}: its {family} differs in more than the swept values")
            families.setdefault(family, {}).update(members)
        if both := sorted(own & set(runs["defence"])):
            raise ValueError(f"{name}: {both[0]} is in another of these studies already")
        parts = (frame[frame["defence"].isin(own)] for frame in frames)
        runs, attacks = map(pd.concat, zip((runs, attacks), parts, strict=True))
    if not families:
        raise ValueError(f"{folder}: its study has no sweeps to compare")
    check_known(folder, chosen, families)
    if chosen and chosen[0] != next(iter(families)):
        families = {name: families[name] for name in chosen}
    sweeps = Sweeps(families, study.report.match_accuracy if accuracy is None else [accuracy])
    table = tradeoff_table(sweep_points(runs, attacks, sweeps), sweeps)
    return table[table["family"].isin(chosen or families)]


def _folders(folder: str) -> list[str]:
    """Return the folders of published studies, `<study>+<other>`."""
    first, *others = folder.split("+")
    return [first, *(f"{Path(first).parent}/{name}" for name in others)]


def all_but(root: Path, folder: str, left_out: tuple[str, ...]) -> tuple[str, ...]:
    """Return the families of published studies, `<study>+<other>`, except some."""
    known = [name for each in _folders(folder) for name in published_runs(root, each)[0].families()]
    check_known(folder, left_out, known)
    return tuple(dict.fromkeys(name for name in known if name not in left_out))


def check_known(folder: str, chosen: tuple[str, ...], families: Collection[str]) -> None:
    """Raise a ValueError if a study has no family of a chosen name."""
    if unknown := [name for name in chosen if name not in families]:
        raise ValueError(f"{folder}: no family {', '.join(unknown)} (it has {', '.join(families)})")


def _check_joins(name: str, joined: Study, own: set[str], study: Study) -> None:
    """Refuse a study with other images, networks, trainings or attacks than the first study's."""
    differing = [key for key in _FROZEN if getattr(joined, key) != getattr(study, key)]
    differing += ["data"] * (joined.data_slice() != study.data_slice())
    if differing:
        raise ValueError(f"{name}: its {', '.join(differing)} differ from those of the first study")
    for each in sorted(own):
        if (joined.network(each), joined.training(each)) != (study.model, study.train):
            raise ValueError(f"{name}: {each} has a network or a training of its own")


def published_runs(root: Path, folder: str) -> tuple[Study, pd.DataFrame, pd.DataFrame]:
    """Return a published study, its runs, and its attacks."""
    file, changes = published_study(root / folder)
    return load(root / file, changes), *read_runs(root / folder / "runs.csv")
