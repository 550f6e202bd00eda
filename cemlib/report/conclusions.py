"""The conclusions of published studies in a Markdown page.

    python -m cemlib.report.conclusions README.md

writes anew what stands between `<!-- results/published/<study> -->` and `<!-- end -->`: the worst
case of every defence under the first knowledge, what the comparisons show, and where it came from.
"""

import re
import sys
from pathlib import Path

import pandas as pd

from cemlib.records.files import read_json, write_text
from cemlib.report.claims import sentences, warnings
from cemlib.report.texts import paper_document
from cemlib.report.writer import Table, markdown_table

_BLOCK = re.compile(r"(<!-- (results/published/\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
_LEFT_OUT = "leakage"


def with_conclusions(text: str, root: Path) -> str:
    """Return a page with every block made anew from the published files below a folder.

    Raises:
        FileError: if a study has no provenance.
    """
    return _BLOCK.sub(lambda block: block[1] + conclusions(root / block[2]) + block[3], text)


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


def _narrow(table: Table) -> Table:
    kept = [n for n, title in enumerate(table.titles) if not title.startswith(_LEFT_OUT)]
    rows = [[row[n] for n in kept] for row in table.rows]
    return Table("", [table.titles[n] for n in kept], rows)


if __name__ == "__main__":
    for page in map(Path, sys.argv[1:]):
        write_text(page, with_conclusions(page.read_text(encoding="utf-8"), page.parent))
