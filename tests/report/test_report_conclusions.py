"""The conclusions in README and findings are those of the published files."""

import json
import re
from pathlib import Path

import pandas as pd
import pytest
from synthetic_study import DEFENCES, Study

from cemlib.records.files import write_json
from cemlib.report.build import Results, write_tables
from docs.generated import with_conclusions

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("page", ["README.md", "docs/findings.md"])
def test_pages_say_what_the_published_files_say(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert "<!-- end -->" in text
    assert with_conclusions(text, ROOT) == text


def test_a_block_has_the_worst_case_and_the_claims(full_study: Study, tmp_path: Path) -> None:
    folder = tmp_path / "results/published/some"
    results = Results(*full_study.frames(), DEFENCES)
    write_tables(results, full_study.root, folder)
    settings = {
        "experiment": "some",
        "data": {"source": "digits"},
        "defences": {name: {} for name in DEFENCES},
        "attacks": {"linear": {}},
    }
    (tmp_path / "some.yaml").write_text(json.dumps(settings))
    command = "snakemake --configfile some.yaml"
    made = {"seeds": [0, 1], "commits": ["0123456789"], "command": command}
    write_json(folder / "provenance.json", made)
    page = with_conclusions(
        "Before.\n<!-- results/published/some -->\nold\n<!-- end -->\nAfter.\n", tmp_path
    )
    assert page.startswith("Before.\n<!-- results/published/some -->\n\n| defence |")
    assert page.endswith("<!-- end -->\nAfter.\n")
    assert "old" not in page
    assert "mean over 2 seeds" in page
    assert f"Commit 0123456, `{command}`." in page
    rows = re.findall(
        r"^\| (\w+) \|.*\| ([\d.]+) ± [\d.]+ \| [\d.]+ ± [\d.]+ \| [\d.]+ ± [\d.]+ \|$", page, re.M
    )
    worst = pd.read_csv(folder / "summary.csv").query(
        "attack == 'worst_case' and knowledge == 'train_data'"
    )
    assert [name for name, _ in rows] == worst["defence"].tolist()
    assert [float(mse) for _, mse in rows] == pytest.approx(worst["mse_mean"].tolist(), rel=0.01)
    claims = (folder / "claims.md").read_text().split("## ")[1]
    assert [line[2:] for line in page.splitlines() if line.startswith("* ")] == [
        line[2:] for line in claims.splitlines() if line.startswith("- ")
    ]
