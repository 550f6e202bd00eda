"""The tables as HTML: well-formed, without other files, and with the cells of the other formats."""

import math
import re
import xml.etree.ElementTree as ET

import pandas as pd
import pytest
from synthetic_study import DEFENCES, Study

from cemlib.report.collect import collect
from cemlib.report.comparisons import comparisons_table
from cemlib.report.comparisons_text import comparisons_document
from cemlib.report.summary_text import summary_document
from cemlib.report.tables import summary_table
from cemlib.report.writer import html, markdown


def tables(page: str) -> list[ET.Element]:
    """Read as XML, so that an open tag or a bare & is an error."""
    return list(ET.fromstring(page).iter("table"))


def rows(table: ET.Element) -> list[list[str]]:
    body = table.find("tbody")
    assert body is not None
    return [["".join(cell.itertext()) for cell in row] for row in body]


def test_the_cells_are_those_of_the_markdown(full_study: Study) -> None:
    summary = summary_table(*collect(full_study.runs, full_study.attacks), DEFENCES)
    written = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in markdown(summary_document(summary)).splitlines()
        if line.startswith("|") and not line.startswith(("| defence", "| ---"))
    ]
    found = [row for table in tables(html(summary_document(summary))) for row in rows(table)]
    assert len(found) == 4 * len(DEFENCES)
    assert found == written


def test_the_groups_stand_over_their_columns(full_study: Study) -> None:
    summary = summary_table(*collect(full_study.runs, full_study.attacks), DEFENCES)
    for table in tables(html(summary_document(summary))):
        head = table.find("thead")
        assert head is not None
        over, titles = list(head)
        assert sum(int(cell.attrib["colspan"]) for cell in over) == len(titles)
        assert [cell.text for cell in over if cell.text] == ["train_data", "public_data"]
        assert len({len(row) for row in rows(table)} | {len(titles)}) == 1


def test_a_page_needs_nothing_else(full_study: Study) -> None:
    frames = collect(full_study.runs, full_study.attacks)
    for page in (
        html(summary_document(summary_table(*frames, DEFENCES))),
        html(comparisons_document(comparisons_table(*frames, DEFENCES, None))),
    ):
        assert re.search(r"src=|href=|url\(|@import|//", page) is None


def test_comparisons_are_those_of_the_csv(full_study: Study) -> None:
    frame = comparisons_table(*collect(full_study.runs, full_study.attacks), DEFENCES, None)
    found = tables(html(comparisons_document(frame)))
    families = frame.groupby(["metric", "knowledge"], sort=False)
    assert len(found) == len(families)
    for table, ((metric, knowledge), part) in zip(found, families, strict=True):
        caption = table.findtext("caption") or ""
        assert str(knowledge) in caption
        scale = 100 if metric in ("top1", "recon_top1") else 1
        for cells, row in zip(rows(table), part.itertuples(), strict=True):
            assert cells[0] == row.defence
            if not math.isnan(row.difference):
                assert float(cells[1]) == pytest.approx(scale * row.difference, rel=5e-3)
            assert cells[-1] == row.verdict


def test_what_was_not_compared_has_no_numbers() -> None:
    intervals = ("ci_low", "ci_high", "boot_low", "boot_high")
    tests = ("g_z", "p", "p_permutation", "p_holm", "p_holm_study")
    nothing = dict.fromkeys(("difference", *intervals, *tests), math.nan)
    row = {"defence": "wild", "reference": "noise", "knowledge": "", "metric": "mse", "n_pairs": 0}
    frame = pd.DataFrame([{**row, **nothing, "verdict": "no difference shown"}])
    page = html(comparisons_document(frame))
    assert rows(tables(page)[0]) == [["wild", *"--------", "0", "no difference shown"]]


def test_a_name_is_text_and_no_tag(study: Study) -> None:
    name = "<script>alert('&')</script>"
    study.add_run(name, 0)
    study.add_attack(name, 0, "decoder", "train_data")
    summary = summary_table(*collect(study.runs, study.attacks), (name,))
    page = html(summary_document(summary))
    assert "<script" not in page
    assert rows(tables(page)[0])[0][0] == name
