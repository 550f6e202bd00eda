"""The conclusions of published studies in a Markdown page.

    python -m cemlib.report.conclusions README.md docs/findings.md

writes anew what stands between `<!-- results/published/<study> -->` and `<!-- end -->`: the worst
case of every defence under the first knowledge, what the comparisons show, and where it came from.
With `at 93.5 %` behind the name it is the privacy of the study's sweeps at that accuracy, read off
the published runs.
"""

import re
import sys
from pathlib import Path

import pandas as pd

from cemlib.config import load
from cemlib.records.files import read_json, write_text
from cemlib.records.scores import marked
from cemlib.report.at_accuracy import tradeoff_table
from cemlib.report.cells import interval, mean, number, signed
from cemlib.report.claims import sentences, warnings
from cemlib.report.frontier import Sweeps, sweep_points
from cemlib.report.publish import published_study
from cemlib.report.texts import paper_document
from cemlib.report.writer import Column, Table, laid_out, markdown_table

_BLOCK = re.compile(
    r"(<!-- (results/published/\w+)(?: at ([\d.]+) %)? -->\n).*?(<!-- end -->)", re.DOTALL
)
_LEFT_OUT = "leakage"


def with_conclusions(text: str, root: Path) -> str:
    """Return a page with every block made anew from the published files below a folder.

    Raises:
        FileError: if a study has no provenance.
    """

    def made(block: re.Match[str]) -> str:
        start, folder, accuracy, end = block.groups()
        if accuracy is None:
            return f"{start}{conclusions(root / folder)}{end}"
        return f"{start}{at_accuracy(root, folder, float(accuracy))}{end}"

    return _BLOCK.sub(made, text)


def conclusions(folder: Path) -> str:
    """Return the Markdown of one published study.

    Args:
        folder: Has `summary.csv`, `comparisons.csv` and `provenance.json`.
    """
    summary = pd.read_csv(folder / "summary.csv")
    words = {"unconverged": "", "verdict": ""}  # empty where there is nothing to say
    compared = pd.read_csv(folder / "comparisons.csv", dtype=dict.fromkeys(words, str))
    knowledge, told = next(iter(sentences(compared.fillna(words)).items()))
    made = read_json(folder / "provenance.json")
    seeds, commits = len(made["seeds"]), " and ".join(commit[:7] for commit in made["commits"])
    return "\n".join(
        [
            f"\n{markdown_table(_narrow(paper_document(summary).tables[0]))}\n",
            f"Attacker with {knowledge}; mean over {seeds} seeds ± half width of the 95 % interval."
            f" Commit {commits}, `{made['command']}`.\n",
            *(f"* {sentence}" for sentence in [*told, *warnings(summary)]),
            "",
            "",
        ]
    )


def at_accuracy(root: Path, folder: str, accuracy: float) -> str:
    """Return a Markdown table of the privacy of a published study's sweeps at an accuracy.

    Args:
        root: Folder of the repository.
        folder: Of the study there, with `runs.csv`, and `provenance.json` that names its file.
        accuracy: In %.
    """
    file, changes = published_study(root / folder)
    study = load(root / file, changes)
    sweeps = Sweeps(study.families(), [accuracy])
    rows = pd.read_csv(root / folder / "runs.csv").dropna(subset=["knowledge"])
    points = sweep_points(rows.drop_duplicates(["defence", "seed"]), rows, sweeps)
    table = tradeoff_table(points, sweeps)
    return f"\n{markdown_table(laid_out('', table, _COLUMNS))}\n\n"


_COLUMNS: tuple[Column, ...] = (
    ("attacker", number("knowledge")),
    ("family", lambda row: marked(row["family"], row["n_unconverged"] > 0)),
    ("MSE ↑", mean("mse", 4)),
    ("SSIM ↓", mean("ssim", 3)),
    ("identified [%] ↓", mean("recon_top1", 1, 100)),
    ("nats ↓", mean("leakage_nats", 1)),
    ("MSE minus that of the first", signed("difference")),
    ("95 % interval", interval()),
    ("p (Holm)", number("p_holm", 2)),
    ("detectable", number("detectable", 2)),
    ("seeds", number("n_seeds")),
)


def _narrow(table: Table) -> Table:
    kept = [n for n, title in enumerate(table.titles) if not title.startswith(_LEFT_OUT)]
    rows = [[row[n] for n in kept] for row in table.rows]
    return Table("", [table.titles[n] for n in kept], rows)


if __name__ == "__main__":
    for page in map(Path, sys.argv[1:]):
        write_text(page, with_conclusions(page.read_text(encoding="utf-8"), Path()))
