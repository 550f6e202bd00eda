"""The results page says what the result files say, fetches nothing, and takes text for text."""

import base64
import hashlib
import math
import re
from html.parser import HTMLParser
from io import BytesIO
from pathlib import Path

import pandas as pd
import pytest
from page_study import FIGURES, MARKUP, build, page_study, settings, tables
from PIL import Image
from synthetic_study import Study

from cemlib.files import FileError, read_json, write_json
from cemlib.report.page import SCRIPT, STYLE
from cemlib.report.page.build import write_page

SCORES = ("top1", "leakage_nats", "mse", "ssim", "psnr", "recon_top1")
PERCENT = {"top1", "recon_top1"}
SUMMARY, COMPARISONS, JOBS = range(3)


class Reader(HTMLParser):
    """Elements with their attributes, the cells of tables, and the content of raw elements."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.tables: list[list[list[str]]] = []
        self.raw: dict[str, list[str]] = {"script": [], "style": []}
        self.text = ""
        self._open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._open.append(tag)
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] in self.raw:
            self.raw[self._open[-1]].append(data)
        elif self._open and self._open[-1] in ("td", "th"):
            self.tables[-1][-1][-1] += data
        else:
            self.text += data

    def values(self, name: str) -> list[str]:
        return [str(found[name]) for _, found in self.elements if found.get(name)]


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    return page_study(tmp_path_factory.mktemp("results") / "synthetic")


@pytest.fixture(scope="module")
def page(study: Study) -> Reader:
    return Reader(build(study, study.root / "index.html").read_text())


def test_the_summary_table_is_summary_csv(study: Study, page: Reader) -> None:
    summary = pd.read_csv(tables(study) / "summary.csv")
    head, *rows = page.tables[SUMMARY]
    assert head[:3] == ["Defence", "Attack", "Attacker has"]
    assert len(rows) == len(summary) == 24
    for cells, (_, expected) in zip(rows, summary.iterrows(), strict=True):
        keys = expected[["defence", "attack", "knowledge"]]
        assert cells[:3] == [name.replace("_", " ") for name in keys]
        for text, score in zip(cells[3:9], SCORES, strict=True):
            check_cell(text, expected, score)


def check_cell(text: str, row: pd.Series, score: str) -> None:
    mean, high = row[f"{score}_mean"], row[f"{score}_ci_high"]
    scale = 100 if score in PERCENT else 1
    if math.isnan(mean):
        assert text == "failed"
    elif math.isinf(mean):
        assert text == "∞"
    else:
        shown, _, spread = text.partition(" ± ")
        places = len(shown.partition(".")[2])
        assert float(shown) == pytest.approx(scale * mean, abs=0.51 * 10**-places)
        half = math.nan if not spread else float(spread)
        expected = pytest.approx(scale * (high - mean), abs=0.51 * 10**-places, nan_ok=True)
        assert half == expected


def test_failed_results_are_told_with_their_reason(page: Reader) -> None:
    assert "1 failed." in page.text
    assert f"clustering, seed 1: {MARKUP}" in page.text
    seeds = {cells[0]: cells[10] for cells in page.tables[SUMMARY][1:]}
    assert seeds == {"none": "2", "noise": "2", "clustering": "1 (1 failed)"}
    failed = [row[3] for row in page.tables[JOBS] if row[:3] == ["clustering", "1", "training"]]
    assert failed == [f"failed: {MARKUP}"]


def test_comparisons_say_no_more_than_the_test(study: Study, page: Reader) -> None:
    expected = pd.read_csv(tables(study) / "comparisons.csv")
    _, *rows = page.tables[COMPARISONS]
    assert len(rows) == len(expected)
    corrected = expected["p_holm_study"]
    for cells, verdict, p in zip(rows, expected["verdict"], corrected, strict=True):
        words = cells[6]
        if math.isnan(p):
            assert words.startswith("Not tested: ")
        elif verdict == "no difference shown":
            assert words.startswith("No difference to noise shown")
        else:
            assert {"higher": "raises", "lower": "lowers"}[verdict] in words
        assert ("shown by" in words) == (not math.isnan(p))


def test_every_picture_and_link_is_within_the_page(page: Reader) -> None:
    pictures = [
        found["src"] or "" for tag, found in page.elements if tag == "img" if "src" in found
    ]
    assert [Image.open(BytesIO(base64.b64decode(p.split(",")[1]))).size for p in pictures] == [
        (700, 300)
    ] * len(FIGURES)
    assert sorted(page.values("data-figure")) == sorted(FIGURES)
    anchors = {value.removeprefix("#") for value in page.values("href") if value != "data:,"}
    assert anchors <= set(page.values("id"))
    labels = set(page.values("aria-labelledby") + page.values("for"))
    assert labels <= set(page.values("id"))
    for name in ("src", "href", "srcset", "action", "style"):
        assert all(value.startswith(("#", "data:")) for value in page.values(name)), name
    assert not [name for _, found in page.elements for name in found if name.startswith("on")]


def test_the_policy_names_the_style_and_the_script(page: Reader) -> None:
    (policy,) = (found["content"] for _, found in page.elements if "http-equiv" in found)
    for kind, content in (("style", page.raw["style"][0]), ("script", page.raw["script"][0])):
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in str(policy)
    assert "default-src 'none'" in str(policy)
    assert "http" not in str(policy)


def test_the_same_results_give_the_same_bytes(study: Study, tmp_path: Path) -> None:
    first, second = (build(study, tmp_path / name).read_bytes() for name in ("a", "b"))
    assert first == second


def test_text_from_a_study_is_no_markup(study: Study, tmp_path: Path) -> None:
    """The configuration refuses such names; a result folder may come from anyone."""
    config = settings() | {"experiment": MARKUP}
    config["data"] |= {"source": MARKUP}
    page = Reader(build(study, tmp_path / "index.html", config).read_text())
    assert len(page.raw["script"]) == 1
    assert not [found for _, found in page.elements if found.get("src") == "x"]
    assert page.text.count(MARKUP) >= 4


def test_nothing_of_ours_ends_its_element() -> None:
    for path in (STYLE, SCRIPT):
        assert not re.search(r"</(script|style)|<!--", path.read_text(), re.IGNORECASE), path


def test_a_changed_result_is_refused(tmp_path: Path) -> None:
    study = page_study(tmp_path / "synthetic")
    data = study.root / "data/data.json"
    write_json(data, read_json(data) | {"counts": {"test": 1}})
    with pytest.raises(FileError, match=r"data\.json: damaged or changed"):
        build(study, tmp_path / "index.html")


def test_a_damaged_figure_is_named(study: Study, tmp_path: Path) -> None:
    damaged = tmp_path / "privacy.png"
    damaged.write_bytes(b"damaged")
    data = study.root / "data/data.json"
    out = tmp_path / "index.html"
    with pytest.raises(FileError, match=r"privacy\.png: cannot be read as a picture"):
        write_page(
            study.runs, study.attacks, out, data=data, figures=[damaged], settings=settings()
        )
