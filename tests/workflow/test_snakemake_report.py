"""The page that `snakemake --report` makes of a finished study, opened in a real browser."""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from checkout import Checkout, Outcome

LARGEST = 10 * 2**20
CATEGORIES = {"Accuracy and privacy", "Reconstructions", "Tables", "Training and surrogates"}
DEFENCES = ("noise", "clustering", "wild")


@pytest.fixture(scope="module")
def report(base: tuple[Checkout, Outcome], tmp_path_factory: pytest.TempPathFactory) -> Path:
    page = tmp_path_factory.mktemp("report") / "report.html"
    outcome = base[0].snakemake("--report", str(page))
    assert outcome.code == 0, outcome.output
    assert page.stat().st_size < LARGEST
    return page


@pytest.fixture(scope="module")
def results(report: Path) -> dict[str, Any]:
    """What the page shows, by the paths of the files."""
    found = re.search(r"var results = (\{.*\});", report.read_text(encoding="utf-8"))
    assert found is not None
    shown: dict[str, Any] = json.loads(found[1])
    return shown


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
    assert len(strips) == len(DEFENCES) * 5 * 2
    assert set(results) == {str(path.relative_to(base[0].root)) for path in wanted | strips}


def test_every_entry_says_what_it_is(results: dict[str, Any]) -> None:
    for name, entry in results.items():
        caption = re.sub("<[^>]+>", "", entry["caption"])
        assert len(caption.split()) > 10, name
        assert "{{" not in caption, name
        assert all(entry["labels"].values()), name


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium without any network."""
    sync = pytest.importorskip("playwright.sync_api")
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("no chromium")
    options = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
    with sync.sync_playwright() as started:
        running = started.chromium.launch(executable_path=chromium, args=options)
        yield running
        running.close()


class Reader:
    """The opened page, and what it asked for and complained of."""

    def __init__(self, browser: Any, report: Path) -> None:
        context = browser.new_context(viewport={"width": 1500, "height": 950}, offline=True)
        self.page = context.new_page()
        self.asked: set[str] = set()
        self.faults: list[str] = []
        self.page.on("request", lambda request: self.asked.add(request.url.split(":")[0]))
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("console", self._listen)
        self.page.goto(report.as_uri())

    def _listen(self, message: Any) -> None:
        if message.type == "error":
            self.faults.append(message.text)

    def open(self, *names: str) -> None:
        """Click through the menu, then show the file of a row."""
        *menu, row = names
        for name in menu:
            self.page.get_by_text(name, exact=True).first.click()
        self.page.locator("tr", has_text=row).locator("a[iconname=eye]").first.click()


@pytest.fixture
def reader(browser: Any, report: Path) -> Iterator[Reader]:
    reader = Reader(browser, report)
    yield reader
    assert reader.faults == []
    assert reader.asked <= {"file", "data", "blob"}
    reader.page.close()


def test_it_opens_with_the_study_and_its_categories(reader: Reader) -> None:
    text = reader.page.locator("#app").inner_text()
    assert "Study tiny" in text
    assert all(category in text for category in CATEGORIES)
    reader.page.get_by_text("Reconstructions", exact=True).first.click()
    assert all(reader.page.get_by_text(name, exact=True).count() for name in DEFENCES)


def test_a_table_shows_the_numbers_of_the_study(
    reader: Reader, base: tuple[Checkout, Outcome]
) -> None:
    reader.open("Tables", "summary")
    table = reader.page.frame_locator("iframe").locator("table").first
    shown = table.locator("tr", has_text="clustering").inner_text().replace("†", "").split()
    summary = pd.read_csv(base[0].results / "tables/summary.csv")
    row = summary[(summary["defence"] == "clustering") & (summary["attack"] == "worst_case")]
    assert f"{100 * row['top1_mean'].iloc[0]:.2f}" in shown
    assert f"{row['ssim_mean'].iloc[0]:.3f}" in shown


@pytest.mark.parametrize(
    "place",
    [
        ("Accuracy and privacy", "accuracy and worst-case error"),
        ("Reconstructions", "all defences", "reconstructions by the strongest attack"),
        ("Reconstructions", "clustering", "linear"),
        ("Training and surrogates", "how the surrogates worked"),
    ],
)
def test_a_figure_opens(reader: Reader, place: tuple[str, ...]) -> None:
    reader.open(*place)
    picture = reader.page.locator("#app img[src^='data:image/png']").last
    picture.wait_for()
    assert picture.evaluate("it => it.complete && it.naturalWidth") > 100


def test_statistics_and_workflow_are_drawn(reader: Reader) -> None:
    for name in ("Statistics", "Workflow"):
        reader.page.get_by_text(name, exact=True).first.click()
        drawing = reader.page.locator("#app canvas, #app svg.marks").first
        drawing.wait_for()


def test_a_study_that_has_not_run_has_no_report(fresh: Checkout, tmp_path: Path) -> None:
    """Said by the name of a missing file, without a page and without a traceback."""
    outcome = fresh.snakemake("--report", str(tmp_path / "report.html"))
    assert outcome.code != 0
    assert "marked for report but does not exist" in outcome.output
    assert "Traceback" not in outcome.output
    assert not (tmp_path / "report.html").exists()
