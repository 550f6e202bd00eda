"""Write the conclusions of published studies into Markdown pages.

    python -m cemlib.report.conclusions README.md docs/findings.md

replaces everything between `<!-- results/published/<study> -->` and `<!-- end -->` by the worst
case of every defence under the first knowledge, the claims, and the origin of the numbers. After
`<!-- results/published/<study> at 93.5 % -->` it writes the privacy of the study's sweeps at that
accuracy. Both are computed from the published runs, whichever version published them.
"""

import math
import re
import sys
from dataclasses import replace
from pathlib import Path

import pandas as pd

from cemlib.config import Study, load
from cemlib.records.files import read_json, write_text
from cemlib.records.scores import SCORES, marked
from cemlib.report.at_accuracy import tradeoff_table
from cemlib.report.cells import interval, mean, number
from cemlib.report.claims import sentences, warnings
from cemlib.report.comparisons import comparisons_table
from cemlib.report.frontier import Sweeps, sweep_points
from cemlib.report.publish import published_study
from cemlib.report.tables import summary_table
from cemlib.report.texts import STRONGEST, paper_document
from cemlib.report.writer import Column, laid_out, markdown_table

_BLOCK = re.compile(
    r"(<!-- (results/published/\w+)(?: at ([\d.]+) %)? -->\n).*?(<!-- end -->)", re.DOTALL
)
_LEFT_OUT = (SCORES["leakage_nats"].heading, SCORES["psnr"].heading, STRONGEST)


def with_conclusions(text: str, root: Path) -> str:
    """Return a page with every block made again from the published files below a folder."""

    def made(block: re.Match[str]) -> str:
        start, folder, accuracy, end = block.groups()
        if accuracy is None:
            return f"{start}{conclusions(root, folder)}{end}"
        return f"{start}{at_accuracy(root, folder, float(accuracy))}{end}"

    return _BLOCK.sub(made, text)


def conclusions(root: Path, folder: str) -> str:
    """Return the worst case and the claims of one published study in Markdown."""
    study, runs, attacks = _published(root, folder)
    summary = summary_table(runs, attacks, [*study.defences])
    compared = comparisons_table(runs, attacks, [*study.defences], study.reference)
    table = paper_document(summary, _LEFT_OUT).tables[0]
    knowledge, told = next(iter(sentences(compared).items()))
    made = read_json(root / folder / "provenance.json")
    seeds, commits = len(made["seeds"]), " and ".join(commit[:7] for commit in made["commits"])
    return "\n".join(
        [
            f"\n{markdown_table(replace(table, caption=''))}\n",
            f"Attacker with {knowledge}; mean over {seeds} seeds ± half width of the 95 % interval."
            f" Commit {commits}, `{made['command']}`.\n",
            *(f"* {sentence}" for sentence in [*told, *warnings(summary)]),
            "",
            "",
        ]
    )


def at_accuracy(root: Path, folder: str, accuracy: float) -> str:
    """Return a Markdown table of the privacy of a published study's sweeps at an accuracy in %."""
    study, runs, attacks = _published(root, folder)
    sweeps = Sweeps(study.families(), [accuracy])
    table = tradeoff_table(sweep_points(runs, attacks, sweeps), sweeps)
    return f"\n{markdown_table(laid_out('', table, _COLUMNS))}\n\n"


def _published(root: Path, folder: str) -> tuple[Study, pd.DataFrame, pd.DataFrame]:
    """Return a published study, its runs, and its attacks."""
    file, changes = published_study(root / folder)
    rows = pd.read_csv(root / folder / "runs.csv")
    if "chance_top1" not in rows:  # published before that was a column: then nothing warns of it
        rows["chance_top1"] = math.nan
    runs = rows.drop_duplicates(["defence", "seed"])
    return load(root / file, changes), runs, rows.dropna(subset=["knowledge"])


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


if __name__ == "__main__":
    for page in map(Path, sys.argv[1:]):
        write_text(page, with_conclusions(page.read_text(encoding="utf-8"), Path()))
