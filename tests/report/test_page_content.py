"""The results page says what the result files say, fetches nothing, and takes text for text."""

import base64
import hashlib
import re
from io import BytesIO
from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from page_study import DEFENCES, FIGURES, MARKUP, build, page_study, settings
from PIL import Image
from synthetic_study import Study

from cemlib.records.files import FileError, read_json, write_json
from cemlib.records.layout import KNOWLEDGES
from cemlib.report import STYLE
from cemlib.report.build import Results
from cemlib.report.frontier import Sweeps
from cemlib.report.page import write_page
from cemlib.report.texts import comparisons_document, summary_document


class Reader:
    """A page: its elements, the cells of its tables, and its text outside of cells."""

    def __init__(self, text: str) -> None:
        self.found = BeautifulSoup(text, "html.parser")
        self.tables = [
            [[cell.text for cell in row(["th", "td"])] for row in table("tr")]
            for table in self.found("table")
        ]
        apart = ("th", "td", "style", "script")
        self.text = "".join(t for t in self.found(string=True) if t.parent.name not in apart)

    def values(self, name: str) -> list[str]:
        return [each[name] for each in self.found(attrs={name: True}) if each[name]]


@pytest.fixture(scope="module")
def page(paged: Study) -> Reader:
    return Reader(build(paged, paged.root / "index.html").read_text())


def test_the_tables_are_those_of_the_report(paged: Study, page: Reader) -> None:
    results = Results(*paged.frames(), DEFENCES, reference="noise")
    documents = summary_document(results.summary), comparisons_document(results.compared)
    expected = [table for document in documents for table in document.tables]
    assert len(page.tables) == len(expected) + 1  # every result stands in the last one
    for found, table in zip(page.tables, expected, strict=False):
        assert found == [list(table.titles), *map(list, table.rows)]
    for text in (note for document in documents for note in document.notes):
        assert text in page.text
    # The worst cases, and the first figure of each kind.
    assert len(page.found("details", open=True)) == 2 + 3


def test_images_that_are_in_two_splits_are_told(page: Reader) -> None:
    assert "50 val, 120 test (3 test images are also in training or validation)" in page.text


def test_failed_results_are_told_with_their_reason(page: Reader) -> None:
    assert "1 failed." in page.text
    assert f"clustering, seed 1: {MARKUP}" in page.text
    failed = [row[3] for row in page.tables[-1] if row[:3] == ["clustering", "1", "training"]]
    assert failed == [f"failed: {MARKUP}"]


def test_every_picture_and_link_is_within_the_page(page: Reader) -> None:
    pictures = page.values("src")
    assert [Image.open(BytesIO(base64.b64decode(p.split(",")[1]))).size for p in pictures] == [
        (700, 300)
    ] * len(FIGURES)
    assert sorted(page.values("data-figure")) == sorted(FIGURES)
    anchors = {value.removeprefix("#") for value in page.values("href") if value != "data:,"}
    assert anchors <= set(page.values("id"))
    for name in ("src", "href", "srcset", "action", "style"):
        assert all(value.startswith(("#", "data:")) for value in page.values(name)), name
    names = {name for each in page.found(True) for name in each.attrs}
    assert not [name for name in names if name.startswith("on")]


def test_the_menu_has_the_order_of_the_page(page: Reader) -> None:
    _icon, _skip, *links = page.values("href")
    parts = [f"#{section['id']}" for section in page.found("section")]
    assert links[: len(parts)] == parts


def test_the_page_of_a_study_with_sweeps_has_its_tables_at_equal_accuracy(tmp_path: Path) -> None:
    families = {"noise": {"noise": {"noise_std": 0.1}}, "clustering": {"clustering": {"lambda": 2}}}
    study = page_study(tmp_path / "synthetic")
    path = build(study, tmp_path / "index.html", sweeps=Sweeps(families, [94.0]))
    source = path.read_text(encoding="utf-8")
    page = Reader(source)
    links = page.values("href")
    assert links.index("#tradeoff") + 1 == links.index("#summary")
    assert "tradeoff" in page.values("id")
    shown = [table for table in page.tables if table[0][0] == "family"]
    assert [[row[0] for row in table[1:]] for table in shown] == [["noise", "clustering"]] * 2
    parts = re.findall("<details( open)?>\n<summary>(At an accuracy of 94 %.*)</summary>", source)
    assert parts == [(" open", f"At an accuracy of 94 %, {kind}") for kind in KNOWLEDGES]


def test_the_policy_names_the_style_and_allows_no_script(page: Reader) -> None:
    (policy,) = (meta["content"] for meta in page.found(attrs={"http-equiv": True}))
    (style,) = (each.string for each in page.found("style"))
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"style-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy
    assert "script-src" not in policy
    assert "http" not in policy
    assert not re.search(r"</style|<!--", STYLE.read_text(), re.IGNORECASE)


def test_the_same_results_give_the_same_bytes(paged: Study, tmp_path: Path) -> None:
    first, second = (build(paged, tmp_path / name).read_bytes() for name in ("a", "b"))
    assert first == second


def test_text_from_a_study_is_no_markup(paged: Study, tmp_path: Path) -> None:
    """The configuration refuses such names; a result folder may come from anyone."""
    config = settings() | {"experiment": MARKUP}
    config["data"] |= {"source": MARKUP}
    page = Reader(build(paged, tmp_path / "index.html", config).read_text())
    assert not page.found("script")
    assert not page.found(src="x")
    assert page.text.count(MARKUP) >= 4


def test_a_changed_result_is_refused(tmp_path: Path) -> None:
    study = page_study(tmp_path / "synthetic")
    data = study.root / "data/data.json"
    write_json(data, read_json(data) | {"counts": {"test": 1}})
    with pytest.raises(FileError, match=r"data\.json: damaged or changed"):
        build(study, tmp_path / "index.html")


def test_a_missing_figure_is_named(paged: Study, tmp_path: Path) -> None:
    results = Results(*paged.frames(), DEFENCES)
    data, missing = paged.root / "data/data.json", tmp_path / "overview.png"
    with pytest.raises(FileError, match=r"overview\.png: cannot be read"):
        write_page(
            results, paged.runs, tmp_path / "x", data=data, figures=[missing], settings=settings()
        )
