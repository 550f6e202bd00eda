"""The page that `snakemake --report` makes of a finished study: what it holds, and where."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from checkout import Checkout, Outcome

LARGEST = 10 * 2**20
CATEGORIES = {"Accuracy and privacy", "Reconstructions", "Tables", "Training and surrogates"}
DEFENCES = ("clustering", "wild")


@pytest.fixture(scope="module")
def report(base: tuple[Checkout, Outcome], tmp_path_factory: pytest.TempPathFactory) -> Path:
    page = tmp_path_factory.mktemp("report") / "report.html"
    outcome = base[0].snakemake("--report", str(page))
    assert outcome.code == 0, outcome.output
    assert page.stat().st_size < LARGEST
    return page


def data(report: Path, name: str) -> dict[str, Any]:
    """What the page says of its results or of its categories."""
    found = re.search(rf"var {name} = (\{{.*\}});", report.read_text(encoding="utf-8"))
    return json.loads(found[1])


@pytest.fixture(scope="module")
def results(report: Path) -> dict[str, Any]:
    """What the page shows, by the paths of the files."""
    return data(report, "results")


def test_every_figure_and_table_is_in_it_once(
    base: tuple[Checkout, Outcome], results: dict[str, Any]
) -> None:
    study = base[0].results
    wanted = set(study.glob("figures/*.png")) | set(study.glob("tables/*.html"))
    strips = {
        path
        for defence in DEFENCES
        for path in study.glob(f"runs/{defence}/seed0/attacks/*/reconstructions.png")
    }
    assert len(strips) == len(DEFENCES) * 4 * 2
    assert set(results) == {str(path.relative_to(base[0].root)) for path in wanted | strips}


def test_every_entry_says_what_it_is(results: dict[str, Any]) -> None:
    for name, entry in results.items():
        caption = re.sub("<[^>]+>", "", entry["caption"])
        assert len(caption.split()) > 10, name
        assert "{{" not in caption, name
        assert all(entry["labels"].values()), name


def test_every_defence_has_its_pictures_below_their_category(report: Path) -> None:
    categories = data(report, "categories")
    assert set(categories) == CATEGORIES
    assert set(categories["Reconstructions"]) == {"all defences", *DEFENCES}
