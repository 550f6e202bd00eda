"""The tables for people: what stands in a cell, and that every format is well formed."""

import math
import re
import shutil
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path

import pandas as pd
import pytest
from synthetic_study import DEFENCES, KNOWLEDGES, Study

from cemlib.report.comparisons import comparisons_table
from cemlib.report.tables import summary_table
from cemlib.report.texts import comparisons_document, paper_document, summary_document
from cemlib.report.writer import Document, Table, html, latex, markdown


def summary(study: Study, order: tuple[str, ...] = DEFENCES) -> pd.DataFrame:
    return summary_table(*study.frames(), order)


def rendered(study: Study, order: tuple[str, ...] = DEFENCES) -> tuple[str, str]:
    table = summary(study, order)
    return markdown(summary_document(table)), latex(paper_document(table))


def cells(text: str, defence: str, separator: str) -> list[str]:
    """Cells of the first row that begins with the name: that of the worst case."""
    start = f"| {defence} " if separator == "|" else f"{defence} &"
    line = next(line for line in text.splitlines() if line.startswith(start))
    return [cell.strip() for cell in line.removesuffix(r"\\").strip(separator).split(separator)]


def three_seeds(study: Study, defence: str) -> None:
    """MSE .0010 .0012 .0014: mean .0012, half width 4.302653 * .0002 / sqrt(3) = .000497."""
    for seed, error in enumerate((0.0010, 0.0012, 0.0014)):
        study.add_run(defence, seed, top1=0.98 + seed / 100, leakage_nats=None)
        share = 0.2 + seed / 10  # half width 4.302653 * .1 / sqrt(3)
        study.add_attack(defence, seed, mse=error, psnr=29.0, ssim=0.5, recon_top1=share)


def test_a_row_holds_means_with_half_widths(study: Study) -> None:
    three_seeds(study, "none")
    text, tex = rendered(study)
    expected = ["99.00 ± 2.48", "∞", "0.00120 ± 0.00050", "0.500 ± 0.000"]
    identified = "30.00 ± 24.84"
    assert cells(text, "none", "|") == ["none", *expected, "29.00 ± 0.00", identified, "decoder"]
    spread = re.compile(r" ± (\S+)")
    shown = [*expected, identified]
    small = [spread.sub(r"\\,{\\scriptsize$\\pm$\\,\1}", cell) for cell in shown]
    in_tex = [cell.replace("∞", r"$\infty$") for cell in small]
    assert cells(tex, "none", "&") == ["none", *in_tex]  # narrow: PSNR says what MSE says


def test_the_heads_name_the_scores_and_captions_the_attack_and_its_images(
    full_study: Study,
) -> None:
    text, tex = rendered(full_study)
    header = next(line for line in text.splitlines() if line.startswith("| defence"))
    assert [cell.strip() for cell in header.strip("|").split("|")] == [
        "defence",
        "top-1 [%] ↑",
        "leakage bound [nats] ↓",
        "MSE ↑",
        "SSIM ↓",
        "PSNR [dB] ↓",
        "identified [%] ↓",
        "strongest attack",
    ]
    headings = [line for line in text.splitlines() if line.startswith("## ")]
    worst = "Worst case: the attack with the lowest MSE on each run"
    titles = (worst, *(f"Attack: {name}" for name in ("decoder", "linear", "mean_image")))
    assert headings == [f"## {t}, {known} (200 images)" for t in titles for known in KNOWLEDGES]
    assert "SSIM and PSNR are of that same attack" in text
    assert "over all 200 test images; the leakage bound is an estimate from 640 images" in text
    assert tex.count(r"\begin{tabular}") == tex.count(r"\end{tabular}") == len(KNOWLEDGES)
    assert r"lowest MSE on each run, public\_data (200 images)}" in tex


def test_what_failed_is_said_and_never_a_number(study: Study) -> None:
    three_seeds(study, "none")
    for seed in range(3):
        study.add_run("gated", seed, status="failed", reason="diverged")
    study.add_run("noise", 0, top1=0.9)
    study.add_attack("noise", 0, mse=0.002)
    study.add_run("noise", 1, top1=0.9)
    study.add_attack("noise", 1, status="failed")
    text, tex = rendered(study)
    assert cells(text, "gated", "|")[1:] == ["failed (3 of 3)"] * 6 + ["-"]
    assert cells(tex, "gated", "&")[1:] == ["failed (3 of 3)"] * 5
    noise = cells(text, "noise", "|")
    assert noise[1] == "90.00 ± 0.00"
    assert noise[3] == "0.00200, failed (1 of 2)"


def test_one_seed_has_no_interval_and_an_absent_attack_a_dash(study: Study) -> None:
    for defence in ("none", "noise"):
        study.add_run(defence, 0, top1=0.95)
        study.add_attack(defence, 0, mse=0.02)
    study.add_attack("none", 0, "decoder", "public_data", mse=0.03, n_images=20)
    text, _ = rendered(study)
    assert "One seed, therefore no intervals." in text
    assert cells(text, "none", "|")[1:4] == ["95.00", "12.5", "0.0200"]
    public = text.split("public_data (20 images)")[1]
    assert cells(public, "noise", "|")[3:] == ["-"] * 5


def test_names_cannot_break_the_tables(study: Study) -> None:
    name = r"50%_a|b&c#{\x}<b>"
    three_seeds(study, name)
    text, tex = rendered(study, (name,))
    assert r"| 50%_a\|b&c#{\x}<b> |" in text
    assert r"c\#\{\textbackslash{}x\}\textless{}b\textgreater{} & 99.00" in tex
    assert r"50\%\_a\textbar{}b\&c" in tex
    page = html(summary_document(summary(study, (name,))))
    assert rows(tables(page)[0])[0][0] == name


PAPER = r"""\documentclass{article}
\usepackage{booktabs}
\usepackage[textwidth=5.5in]{geometry}
\begin{document}
%s
\end{document}
"""


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no pdflatex here")
def test_pdflatex_sets_the_tables_within_a_column(full_study: Study, tmp_path: Path) -> None:
    """Every character that is escaped too; an overfull box would stand in the margin."""
    characters = r"\&%$#_{}~^±∞↑↓²<>|αβδεσλ†"
    every = Document("", [], [Table(characters, ["a_b"], [[characters]])])
    tex = latex(paper_document(summary(full_study))) + latex(every)
    (tmp_path / "paper.tex").write_text(PAPER % tex)
    command = ["pdflatex", "-halt-on-error", "-interaction=nonstopmode", "paper.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    assert "Overfull" not in done.stdout
    assert (tmp_path / "paper.pdf").stat().st_size > 1000


def tables(page: str) -> list[ET.Element]:
    """Read as XML, so that an open tag or a bare & is an error."""
    return list(ET.fromstring(page).iter("table"))


def rows(table: ET.Element) -> list[list[str]]:
    return [["".join(cell.itertext()) for cell in row] for row in table.find("tbody")]


def test_comparisons_are_those_of_the_csv_on_a_page_that_needs_nothing_else(
    full_study: Study,
) -> None:
    frame = comparisons_table(*full_study.frames(), DEFENCES, None)
    page = html(comparisons_document(frame))
    assert re.search(r"src=|href=|url\(|@import|//", page) is None
    found = tables(page)
    families = frame.groupby(["metric", "knowledge"], sort=False)
    assert len(found) == len(families)
    for table, ((metric, knowledge), part) in zip(found, families, strict=True):
        caption = table.findtext("caption") or ""
        assert str(knowledge) in caption
        assert ("(200 images)" in caption) == (metric != "top1")
        heads = [cell.text for cell in table.iter("th")]
        assert ("verdict" in heads) == ("p, Holm" in heads) == (metric == "mse")
        scale = 100 if metric in ("top1", "recon_top1") else 1
        for cells, row in zip(rows(table), part.itertuples(), strict=True):
            assert cells[0] == row.defence
            if not math.isnan(row.difference):
                assert float(cells[1]) == pytest.approx(scale * row.difference, rel=5e-3)
            if metric == "mse":
                assert cells[-1] == row.verdict


def test_what_was_not_compared_has_no_numbers(study: Study) -> None:
    study.add_attack("noise", 0)
    study.add_run("wild", 0, status="failed", reason="diverged")
    order = ("noise", "wild")
    frame = comparisons_table(*study.frames(), order, None)
    page = html(comparisons_document(frame))
    nothing = ["wild", *"---", "0"]
    assert [rows(table)[0][:5] for table in tables(page)] == [nothing] * 4
    assert rows(tables(page)[1])[0][5:] == ["-", "-", ""]
