"""The results page says what the result files say, fetches nothing, and takes text for text."""

import base64
import hashlib
import re
from html.parser import HTMLParser
from io import BytesIO
from pathlib import Path

import pytest
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
    opened = [found for tag, found in page.elements if tag == "details" and "open" in found]
    assert len(opened) == 2 + 3  # worst cases, and the first figure of each kind


def test_images_that_are_in_two_splits_are_told(page: Reader) -> None:
    assert "50 val, 120 test (3 of them are in training or validation, too)" in page.text


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
    assert not [name for _, found in page.elements for name in found if name.startswith("on")]


def test_the_menu_has_the_order_of_the_page(page: Reader) -> None:
    _icon, _skip, *links = page.values("href")
    parts = [f"#{found['id']}" for tag, found in page.elements if tag == "section"]
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
    (policy,) = (found["content"] for _, found in page.elements if "http-equiv" in found)
    digest = base64.b64encode(hashlib.sha256(page.raw["style"][0].encode()).digest()).decode()
    assert f"style-src 'sha256-{digest}'" in str(policy)
    assert "default-src 'none'" in str(policy)
    assert "script-src" not in str(policy)
    assert "http" not in str(policy)
    assert not re.search(r"</style|<!--", STYLE.read_text(), re.IGNORECASE)


def test_the_same_results_give_the_same_bytes(paged: Study, tmp_path: Path) -> None:
    first, second = (build(paged, tmp_path / name).read_bytes() for name in ("a", "b"))
    assert first == second


def test_text_from_a_study_is_no_markup(paged: Study, tmp_path: Path) -> None:
    """The configuration refuses such names; a result folder may come from anyone."""
    config = settings() | {"experiment": MARKUP}
    config["data"] |= {"source": MARKUP}
    page = Reader(build(paged, tmp_path / "index.html", config).read_text())
    assert not page.raw["script"]
    assert not [found for _, found in page.elements if found.get("src") == "x"]
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
