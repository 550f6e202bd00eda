"""The tables for people: what stands in a cell, and that Markdown and LaTeX are well formed."""

import pytest
from synthetic_study import DEFENCES, Study

from cemlib.report.collect import collect
from cemlib.report.summary_text import summary_document
from cemlib.report.tables import summary_table
from cemlib.report.writer import escape, latex, markdown


def rendered(study: Study, order: tuple[str, ...] = DEFENCES) -> tuple[str, str]:
    summary = summary_table(*collect(study.runs, study.attacks), order)
    document = summary_document(summary)
    return markdown(document), latex(document)


def cells(text: str, defence: str, separator: str) -> list[str]:
    """Cells of the first row that begins with the name: that of the worst case."""
    start = f"| {defence} " if separator == "|" else f"{defence} &"
    line = next(line for line in text.splitlines() if line.startswith(start))
    return [cell.strip() for cell in line.removesuffix(r"\\").strip(separator).split(separator)]


def three_seeds(study: Study, defence: str) -> None:
    """MSE .0010 .0012 .0014: mean .0012, half width 4.302653 * .0002 / sqrt(3) = .000497."""
    for seed, error in enumerate((0.0010, 0.0012, 0.0014)):
        study.add_run(defence, seed, top1=0.98 + seed / 100, leakage_nats=None)
        study.add_attack(defence, seed, "decoder", "train_data", mse=error, psnr=29.0, ssim=0.5)


def test_a_row_holds_means_with_half_widths(study: Study) -> None:
    three_seeds(study, "none")
    text, tex = rendered(study)
    expected = [
        "99.00 ± 2.48",
        "∞",
        "0.00120 ± 0.00050",
        "0.500 ± 0.000",
        "29.00 ± 0.00",
        "decoder",
    ]
    assert cells(text, "none", "|") == ["none", *expected]
    in_tex = [cell.replace("±", r"$\pm$").replace("∞", r"$\infty$") for cell in expected]
    assert cells(tex, "none", "&") == ["none", *in_tex]


def test_the_markdown_header_names_score_and_knowledge(full_study: Study) -> None:
    text, _ = rendered(full_study)
    header = next(line for line in text.splitlines() if line.startswith("| defence"))
    titles = [cell.strip() for cell in header.strip("|").split("|")]
    assert titles[:3] == ["defence", "top-1 [%] ↑", "leakage bound [nats] ↓"]
    assert titles[3:6] == ["MSE ↑, train_data", "SSIM ↓, train_data", "PSNR [dB] ↓, train_data"]
    assert titles[6:8] == ["identified [%] ↓, train_data", "strongest attack, train_data"]
    assert titles[8] == "MSE ↑, public_data"


def test_every_attack_has_a_table_after_the_worst_case(full_study: Study) -> None:
    text, tex = rendered(full_study)
    headings = [line for line in text.splitlines() if line.startswith("## ")]
    assert headings[0].startswith("## Worst case")
    assert headings[1:] == ["## Attack: decoder", "## Attack: linear", "## Attack: mean_image"]
    assert tex.count(r"\begin{tabular}") == tex.count(r"\end{tabular}") == 4
    assert r"\caption{Attack: mean\_image}" in tex


def test_all_rows_have_as_many_cells_as_the_header(full_study: Study) -> None:
    text, tex = rendered(full_study)
    worst, *attacks = text.split("## ")[1:]
    for table, bars in ((worst, 14), *((attack, 12) for attack in attacks)):
        assert {line.count("|") for line in table.splitlines() if line.startswith("|")} == {bars}
    rows = [line for line in tex.splitlines() if line.endswith(r"\\") and "multicolumn" not in line]
    assert [line.count("&") for line in rows] == [12] * 6 + [10] * 3 * 6
    assert tex.count(r"\multicolumn{5}{c}{train\_data} & \multicolumn{5}{c}{public\_data} \\") == 1
    assert tex.count(r"\multicolumn{4}{c}{train\_data} & \multicolumn{4}{c}{public\_data} \\") == 3
    assert r"\cmidrule(lr){4-8} \cmidrule(lr){9-13}" in tex


def test_what_failed_is_said_and_never_a_number(study: Study) -> None:
    three_seeds(study, "none")
    for seed in range(3):
        study.add_run("gated", seed, status="failed", reason="diverged")
    study.add_run("noise", 0, top1=0.9)
    study.add_attack("noise", 0, "decoder", "train_data", mse=0.002)
    study.add_run("noise", 1, top1=0.9)
    study.add_attack("noise", 1, "decoder", "train_data", status="failed")
    text, tex = rendered(study)
    assert cells(text, "gated", "|")[1:] == ["failed (3 of 3)"] * 5 + ["-"]
    assert cells(tex, "gated", "&")[1:] == ["failed (3 of 3)"] * 5 + ["-"]
    noise = cells(text, "noise", "|")
    assert noise[1] == "90.00 ± 0.00"
    assert noise[3] == "0.00200, failed (1 of 2)"


def test_one_seed_has_no_interval_and_an_absent_attack_a_dash(study: Study) -> None:
    for defence in ("none", "noise"):
        study.add_run(defence, 0, top1=0.95)
        study.add_attack(defence, 0, "decoder", "train_data", mse=0.02)
    study.add_attack("none", 0, "decoder", "public_data", mse=0.03)
    text, _ = rendered(study)
    assert "One seed, therefore no intervals." in text
    assert cells(text, "none", "|")[1:4] == ["95.00", "12.5", "0.0200"]
    assert cells(text, "noise", "|")[-4:] == ["-", "-", "-", "-"]


def test_names_cannot_break_the_tables(study: Study) -> None:
    name = r"50%_a|b&c#{\x}"
    three_seeds(study, name)
    text, tex = rendered(study, (name,))
    assert r"| 50%_a\|b&c#{\x} |" in text
    assert r"50\%\_a|b\&c\#\{\textbackslash{}x\} & 99.00" in tex


@pytest.mark.parametrize(
    ("text", "expected"),
    [("a_b", r"a\_b"), ("~^", r"\textasciitilde{}\textasciicircum{}"), ("5 $", r"5 \$")],
)
def test_latex_escapes(text: str, expected: str) -> None:
    assert escape(text) == expected


def test_the_note_gives_the_number_of_seeds(study: Study) -> None:
    three_seeds(study, "none")
    study.add_run("noise", 0)
    study.add_attack("noise", 0, "decoder", "train_data")
    text, tex = rendered(study)
    assert "Mean over 1 to 3 seeds ± half width of the 95 % Student-t interval" in text
    assert tex.startswith(r"% Mean over 1 to 3 seeds $\pm$ half width of the 95 \% Student-t")
