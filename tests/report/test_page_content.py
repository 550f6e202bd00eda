"""The results page says what the result files say, fetches nothing, and takes text for text."""

import base64
import hashlib
import json
import math
import re
from html.parser import HTMLParser
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from page_study import FIGURES, MARKUP, build, page_study, settings, tables
from PIL import Image
from synthetic_study import Study

from cemlib.evaluation.pictures import extremes, showcase
from cemlib.files import FileError, read_json, write_json
from cemlib.report.collect import collect
from cemlib.report.grid import read_strip
from cemlib.report.page import STYLE, scripts
from cemlib.report.page.gallery import gallery
from cemlib.report.page.scores import extreme_rows, first_public, shown_rows

SCORES = ("top1", "leakage_nats", "mse", "ssim", "psnr", "recon_top1")
PERCENT = {"top1", "recon_top1"}


class Reader(HTMLParser):
    """Elements with their attributes, the text of table cells, and the content of raw elements."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.rows: dict[str, list[list[tuple[str, str]]]] = {}
        self.raw: dict[str, list[str]] = {"script": [], "style": []}
        self.text = ""
        self._table = self._open = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.elements.append((tag, found))
        self._open = tag
        if tag == "table":
            self._table = str(found["id"])
            self.rows[self._table] = []
        elif tag == "tr":
            self.rows[self._table].append([])
        elif tag in ("td", "th"):
            self.rows[self._table][-1].append((found.get("data-order") or "", ""))

    def handle_endtag(self, tag: str) -> None:
        self._open = "" if tag == self._open else self._open
        self._table = "" if tag == "table" else self._table

    def handle_data(self, data: str) -> None:
        if self._open in self.raw:
            self.raw[self._open].append(data)
        elif self._table and self.rows[self._table] and self.rows[self._table][-1]:
            order, text = self.rows[self._table][-1].pop()
            self.rows[self._table][-1].append((order, f"{text} {data}".strip()))
        else:
            self.text += data

    def values(self, name: str) -> list[str]:
        return [str(found[name]) for _, found in self.elements if found.get(name)]

    @property
    def data(self) -> dict[str, Any]:
        content: dict[str, Any] = json.loads(self.raw["script"][0])
        return content


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    return page_study(tmp_path_factory.mktemp("results") / "synthetic")


@pytest.fixture(scope="module")
def page(study: Study) -> Reader:
    return Reader(build(study, study.root / "index.html").read_text())


def test_the_summary_table_is_summary_csv(study: Study, page: Reader) -> None:
    summary = pd.read_csv(tables(study) / "summary.csv", keep_default_na=True)
    head, *rows = page.rows["summary-table"]
    assert [text for _, text in head][:3] == ["Defence", "Attack", "Attacker has"]
    assert len(rows) == len(summary) == 24
    for cells, (_, expected) in zip(rows, summary.iterrows(), strict=True):
        keys = expected[["defence", "attack", "knowledge"]].tolist()
        assert [order for order, _ in cells[:3]] == keys
        for (order, text), score in zip(cells[3:9], SCORES, strict=True):
            check_cell(order, text, expected, score)


def check_cell(order: str, text: str, row: pd.Series, score: str) -> None:
    mean, high = row[f"{score}_mean"], row[f"{score}_ci_high"]
    scale = 100 if score in PERCENT else 1
    if math.isnan(mean):
        assert (order, text) == ("", "failed")
    elif math.isinf(mean):
        assert (order, text) == ("inf", "∞")
    else:
        assert float(order) == mean
        shown, _, spread = text.partition(" ± ")
        places = len(shown.partition(".")[2])
        assert float(shown) == pytest.approx(scale * mean, abs=0.51 * 10**-places)
        half = math.nan if not spread else float(spread)
        expected = pytest.approx(scale * (high - mean), abs=0.51 * 10**-places, nan_ok=True)
        assert half == expected


def test_failed_results_are_told_with_their_reason(page: Reader) -> None:
    assert "1 failed." in page.text
    assert f"clustering, seed 1: {MARKUP}" in page.text
    seeds = {cells[0][1]: cells[10][1] for cells in page.rows["summary-table"][1:]}
    assert seeds == {"none": "2", "noise": "2", "clustering": "1 (1 failed)"}
    jobs = [[text for _, text in cells] for cells in page.rows["jobs-table"]]
    assert [row[3] for row in jobs if row[:3] == ["clustering", "1", "training"]] == [
        f"failed: {MARKUP}"
    ]


def test_comparisons_say_no_more_than_the_test(study: Study, page: Reader) -> None:
    expected = pd.read_csv(tables(study) / "comparisons.csv")
    _, *rows = page.rows["comparisons-table"]
    assert len(rows) == len(expected)
    corrected = expected["p_holm_study"]
    for cells, verdict, p in zip(rows, expected["verdict"], corrected, strict=True):
        words = cells[6][1]
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
    for kind, content in (("style", page.raw["style"][0]), ("script", page.raw["script"][1])):
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in str(policy)
    assert "default-src 'none'" in str(policy)
    assert "http" not in str(policy)


def test_pictures_are_those_of_the_strips_without_their_enlargement(
    study: Study, page: Reader
) -> None:
    attack = study.attacks[3]
    named = read_json(attack)
    keys = ("defence", "seed", "attack", "knowledge")
    (found,) = (a for a in page.data["attacks"] if all(a[key] == named[key] for key in keys))
    above, below = read_strip(attack.parent / "reconstructions.png")
    assert len(found["shown"]) == len(above) == 12
    for image, original, answer in zip(found["shown"], above, below, strict=True):
        for number, expected in ((image["original"], original), (image["found"], answer)):
            content = BytesIO(base64.b64decode(page.data["pictures"][number]))
            small = np.asarray(Image.open(content).convert("RGB"))
            np.testing.assert_array_equal(small, expected[::2, ::2])


def test_images_are_named_by_the_rules_of_the_attack_job() -> None:
    """Which images a strip shows is told from their scores, as the attack job chose them."""
    draws = torch.Generator().manual_seed(0)
    for size in (3, 11, 200):
        labels = torch.randint(0, 7, (size,), generator=draws)
        mse = torch.randint(1, 9, (size,), generator=draws) / 9  # with ties
        first = int(0.9 * size)
        for start in (0, first):
            columns = {"index": range(start, size), "label": labels[start:], "mse": mse[start:]}
            scores = pd.DataFrame({name: np.asarray(column) for name, column in columns.items()})
            ends, shown = extremes(mse[start:]), showcase(labels, first)
            assert extreme_rows(scores, len(ends)) == ends
            public = scores[scores["index"] >= first]
            rows = shown_rows(scores, first_public([public]), len(shown))
            assert scores["index"].iloc[rows].tolist() == shown


def test_images_of_an_unknown_rule_have_no_scores() -> None:
    scores = pd.DataFrame({"index": [0, 1], "label": [0, 1], "mse": [0.1, 0.2]})
    assert shown_rows(scores, 0, 3) == []
    assert shown_rows(scores, first_public([]), 2) == []


def test_a_large_page_has_the_pictures_of_the_first_seeds(study: Study, tmp_path: Path) -> None:
    attacks = collect(study.runs, study.attacks)[1]
    whole, part = (gallery(attacks, [], 16, limit=limit) for limit in (10**6, 0))
    assert (whole["pictured"], part["pictured"]) == ([0, 1], [0])
    assert {attack["seed"] for attack in part["attacks"]} == {0}
    assert part["pictures"] == whole["pictures"][: len(part["pictures"])] != whole["pictures"]
    build(study, tmp_path / "whole.html")
    assert "are left out" not in (tmp_path / "whole.html").read_text()


def test_the_same_results_give_the_same_bytes(study: Study, tmp_path: Path) -> None:
    first, second = (build(study, tmp_path / name).read_bytes() for name in ("a", "b"))
    assert first == second


def test_text_from_a_study_is_no_markup(study: Study, tmp_path: Path) -> None:
    """The configuration refuses such names; a result folder may come from anyone."""
    config = settings() | {"experiment": MARKUP}
    config["data"] |= {"source": MARKUP}
    page = Reader(build(study, tmp_path / "index.html", config).read_text())
    assert page.data["classes"][-1] == MARKUP
    assert len(page.raw["script"]) == 2
    assert not [found for _, found in page.elements if found.get("src") == "x"]
    assert page.text.count(MARKUP) >= 4


def test_nothing_of_ours_ends_its_element() -> None:
    for path in (STYLE, *scripts()):
        assert not re.search(r"</(script|style)|<!--", path.read_text(), re.IGNORECASE), path


def test_a_changed_result_is_refused(tmp_path: Path) -> None:
    study = page_study(tmp_path / "synthetic")
    data = study.root / "data/data.json"
    write_json(data, read_json(data) | {"counts": {"test": 1}})
    with pytest.raises(FileError, match=r"data\.json: damaged or changed"):
        build(study, tmp_path / "index.html")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("per_image.parquet", r"per_image\.parquet: cannot be read"),
        ("reconstructions.png", r"reconstructions\.png: cannot be read as a picture"),
    ],
)
def test_a_damaged_file_is_named(tmp_path: Path, name: str, message: str) -> None:
    study = page_study(tmp_path / "synthetic")
    (study.attacks[0].parent / name).write_bytes(b"damaged")
    with pytest.raises(FileError, match=message):
        build(study, tmp_path / "index.html")
