"""Make the tables of the documentation from the published studies.

In the pages of `PAGES`, `make reference` replaces what stands between one of these lines and
`<!-- end -->`:

    <!-- results/published/<study> -->
        the worst case of every defence under the first knowledge, the claims, and the origin of
        the numbers; of a study with sweeps the worst case of the defences in its pictures, and the
        origin
    <!-- results/published/<study> at 93.5 % -->
        the privacy of the study's sweeps at an accuracy
    <!-- results/published/<study> compared -->
        the differences from the first sweep at all of the study's accuracies, in %

In the last two, `<study>+<other>` takes the sweeps of two studies. In all of them `of noise, gated`
after the rest leaves only these sweeps, which the last two compare with the first of them.

It also writes every published `claims.md`. All is computed from the published runs, whichever
version published them.
"""

import math
import re
from collections.abc import Collection, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import pandas as pd

from cemlib.config import Study, load
from cemlib.records.files import read_json
from cemlib.records.scores import SCORES, marked
from cemlib.report.at_accuracy import tradeoff_table
from cemlib.report.build import Results
from cemlib.report.cells import interval, mean, number
from cemlib.report.claims import claims, is_shown, sentences, warnings
from cemlib.report.frontier import Sweeps, equally_accurate, sweep_points
from cemlib.report.publish import published_study
from cemlib.report.style import readable
from cemlib.report.tables import read_runs, records
from cemlib.report.texts import STRONGEST, paper_document
from cemlib.report.writer import Column, Row, laid_out, markdown_table

PAGES = (
    "README.md",
    "docs/start.md",
    "docs/findings.md",
    "docs/findings_tables.md",
    "docs/board.md",
    "docs/surrogates/gated.md",
)
_BLOCK = re.compile(
    r"(<!-- (results/published/[\w+]+)(?:( compared)| at ([\d.]+) %)?(?: of ([\w, ]+))? -->\n)"
    r".*?(<!-- end -->)",
    re.DOTALL,
)
_FROZEN = ("model", "train", "attacks", "threads")  # the same in all studies of a table
_LEFT_OUT = (SCORES["leakage_nats"].heading, SCORES["psnr"].heading, STRONGEST)
_COLUMNS: tuple[Column, ...] = (
    ("attacker", number("knowledge")),
    ("family", lambda row: marked(row["family"], row["n_unconverged"] > 0)),
    ("MSE ↑", mean("mse", 4)),
    ("SSIM ↓", mean("ssim", 3)),
    ("identified [%] ↓", mean("recon_top1", 1, 100)),
    ("nats ↓", mean("leakage_nats", 1)),
    ("MSE minus that of the first", number("difference", "+.3g")),
    ("95 % interval", interval()),
    ("p (Holm)", number("p_holm", ".2g")),
    ("detectable", number("detectable", ".2g")),
    ("seeds", number("n_seeds")),
)


def with_conclusions(text: str, root: Path) -> str:
    """Return a page with every block made again from the published files below a folder."""

    def made(block: re.Match[str]) -> str:
        start, folder, compared, accuracy, chosen, end = block.groups()
        names = tuple(chosen.split(", ")) if chosen else ()
        if compared:
            return f"{start}{differences(root, folder, names)}{end}"
        if accuracy:
            return f"{start}{at_accuracy(root, folder, float(accuracy), names)}{end}"
        return f"{start}{conclusions(root, folder, names)}{end}"

    return _BLOCK.sub(made, text)


def conclusions(root: Path, folder: str, chosen: tuple[str, ...] = ()) -> str:
    """Return the worst case and the claims of one published study in Markdown.

    A study with sweeps has only the rows of its pictures, and no claims about single defences. With
    chosen families it has the rows of no others.
    """
    found = _results(root, folder)
    summary, knowledge = found.summary, found.attacks["knowledge"].iloc[0]
    if sweeps := found.sweeps:
        points = found.points[found.points["knowledge"] == knowledge]
        _check_known(folder, chosen, sweeps.families)
        shown = {name for family in chosen or sweeps.families for name in sweeps.families[family]}
        pictured = [
            name
            for name in equally_accurate(found.defences, points, sweeps)
            if name in shown or name not in sweeps.titles()
        ]
        summary = summary[summary["defence"].isin(pictured)].replace({"defence": sweeps.titles()})
        told = []
    else:
        reference = found.compared["reference"].iloc[0]
        told = [f"Each defence minus `{reference}`, on the same seeds:", ""]
        told += [f"* {sentence}" for sentence in sentences(found.compared)[readable(knowledge)]]
    told += [f"* {sentence}" for sentence in warnings(summary)]
    table = replace(paper_document(summary, _LEFT_OUT).tables[0], caption="")
    parts = [markdown_table(table), _origin(root / folder, readable(knowledge)), "\n".join(told)]
    return "\n" + "\n\n".join(filter(None, parts)) + "\n\n"


def published_claims(root: Path) -> Iterator[tuple[Path, str]]:
    """Yield each published `claims.md`, and the text that this version makes of the runs."""
    for place in sorted(root.glob("results/published/*/claims.md")):
        found = _results(root, str(place.parent.relative_to(root)))
        yield place, claims(found.decisive, warnings(found.summary))


def _origin(folder: Path, knowledge: str) -> str:
    made = read_json(folder / "provenance.json")
    commits = [commit[:7] for commit in made["commits"]]
    return (
        f"Attacker with {knowledge}; mean over {len(made['seeds'])} seeds ± half width of the 95 %"
        f" interval. Commit{'s' * (len(commits) > 1)} {', '.join(commits)},"
        f" `{made['command']}`."
    )


def at_accuracy(root: Path, folder: str, accuracy: float, chosen: tuple[str, ...] = ()) -> str:
    """Return a Markdown table of the privacy of published sweeps at an accuracy in %.

    With chosen families it has only these. Holm's correction is over all accuracies
    that the first study names, if this is one of them.
    """
    table = _tradeoff(root, folder, None, chosen)
    if accuracy not in table["accuracy"].tolist():
        table = _tradeoff(root, folder, accuracy, chosen)
    # A dash says that the curve does not reach the accuracy, whether or not some results failed.
    table = table[table["accuracy"] == accuracy].drop(columns="n_failed")
    return f"\n{markdown_table(laid_out('', table, _COLUMNS))}\n\n"


def differences(root: Path, folder: str, chosen: tuple[str, ...] = ()) -> str:
    """Return by how many % the MSE with each family exceeds that with the first, in Markdown.

    There is a column for each attacker at each accuracy of the study with at least one difference.
    Significant differences are bold, and those that rest on an attack which had not converged are
    marked. With chosen families it has only these.
    """
    table = _tradeoff(root, folder, None, chosen)
    reached = table.groupby(["accuracy", "knowledge"])["difference"].transform("count") > 0
    compared = table["family"] != table["reference"]
    rows = table[reached & compared].copy()
    first = table[~compared].set_index(["accuracy", "knowledge"])["mse_mean"]
    bases = [first[row["accuracy"], row["knowledge"]] for row in records(rows)]
    rows["shown"] = [_relative(row, base) for row, base in zip(records(rows), bases, strict=True)]
    places = list(rows[["accuracy", "knowledge"]].drop_duplicates().itertuples(index=False))
    heads = [f"{accuracy:g} %, {knowledge}" for accuracy, knowledge in places]
    wide = rows.set_index(["accuracy", "knowledge", "family"])["shown"].sort_index()
    body = [
        [f"`{family}`", *(wide[(*place, family)] for place in places)]
        for family in rows["family"].unique()
    ]
    lines = [["family", *heads], ["---", *("---:" for _ in heads)], *body]
    return "\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n\n"


def _relative(row: Row, first: float) -> str:
    if not math.isfinite(row["difference"]):
        return "-"
    # The difference is on shared seeds: the first family's mean, if the other one has more.
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
    first, *others = folder.split("+")
    study, runs, attacks = _published(root, first)
    families = study.families()
    for name in others:
        joined, *frames = _published(root, f"{Path(first).parent}/{name}")
        own = {defence for family in joined.families().values() for defence in family}
        _check_joins(name, joined, own, study)
        if both := sorted({*families} & {*joined.families()}):
            raise ValueError(f"{name}: {', '.join(both)} is a family of another study already")
        families |= joined.families()
        parts = (frame[frame["defence"].isin(own)] for frame in frames)
        runs, attacks = map(pd.concat, zip((runs, attacks), parts, strict=True))
    _check_known(folder, chosen, families)
    if chosen and chosen[0] != next(iter(families)):
        families = {name: families[name] for name in chosen}
    sweeps = Sweeps(families, study.report.match_accuracy if accuracy is None else [accuracy])
    table = tradeoff_table(sweep_points(runs, attacks, sweeps), sweeps)
    return table[table["family"].isin(chosen or families)]


def _check_known(folder: str, chosen: tuple[str, ...], families: Collection[str]) -> None:
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


def _published(root: Path, folder: str) -> tuple[Study, pd.DataFrame, pd.DataFrame]:
    """Return a published study, its runs, and its attacks."""
    file, changes = published_study(root / folder)
    return load(root / file, changes), *read_runs(root / folder / "runs.csv")


@cache
def _results(root: Path, folder: str) -> Results:
    """Return the results of a published study, without the scores of single images."""
    study, runs, attacks = _published(root, folder)
    families = study.families()
    sweeps = Sweeps(families, study.report.match_accuracy) if families else None
    return Results(runs, attacks, [*study.defences], study.reference, sweeps, has_images=False)
