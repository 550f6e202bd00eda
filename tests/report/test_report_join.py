"""Joined studies: scipy's Welch test, who is compared with whom, and what the files say."""

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ttest_ind
from synthetic_study import Study

from cemlib.cli import main
from cemlib.report.collect import collect
from cemlib.report.join import joined, write_joined
from cemlib.report.statistics import holm, welch_difference

FIRST = {"noise": [0.90, 0.91, 0.89], "gated": [0.88, 0.87, 0.85]}
OTHER = {"noise": [0.70, 0.71, 0.69, 0.72], "gated": [0.88, 0.86, 0.85, 0.87], "new": [0.5] * 4}


def study(root: Path, name: str, top1: dict[str, list[float]]) -> Study:
    """Linear attacks whose error is a tenth of the accuracy's distance to one."""
    found = Study(root / name)
    for defence, values in top1.items():
        for seed, value in enumerate(values):
            found.add_run(defence, seed, experiment=name, top1=value)
            for knowledge in ("train_data", "public_data"):
                scores = {"experiment": name, "mse": (1 - value) / 10}
                found.add_attack(defence, seed, "linear", knowledge, **scores)
    return found


@pytest.fixture
def two(tmp_path: Path) -> dict[str, tuple[list[Path], list[Path]]]:
    made = {name: study(tmp_path, name, t) for name, t in (("a", FIRST), ("b", OTHER))}
    return {name: (each.runs, each.attacks) for name, each in made.items()}


def rows(table: pd.DataFrame, **wanted: str) -> pd.DataFrame:
    for column, value in wanted.items():
        table = table[table[column] == value]
    return table.reset_index(drop=True)


def test_every_score_stands_beside_the_first_studys(two: dict) -> None:
    table = joined({name: collect(*files) for name, files in two.items()})
    top1 = rows(table, metric="top1")
    assert top1[["defence", "study"]].to_numpy().tolist() == [
        ["noise", "a"],
        ["noise", "b"],
        ["gated", "a"],
        ["gated", "b"],
        ["new", "b"],
    ]
    for defence in FIRST:
        test = ttest_ind(OTHER[defence], FIRST[defence], equal_var=False)
        interval = test.confidence_interval(0.95)
        (row,) = rows(top1, defence=defence, study="b").to_dict("records")
        assert row["mean"] == pytest.approx(np.mean(OTHER[defence]))
        assert row["delta"] == pytest.approx(np.mean(OTHER[defence]) - np.mean(FIRST[defence]))
        assert [row["delta_low"], row["delta_high"]] == pytest.approx([interval.low, interval.high])
        error = rows(table, metric="mse", defence=defence, study="b", knowledge="train_data")
        assert error["p"].item() == pytest.approx(test.pvalue)  # the error is linear in top-1
        assert math.isnan(row["p"])
    assert rows(table, study="a")["p"].isna().all()
    assert set(table.loc[table["metric"] != "mse", "verdict"]) == {""}
    assert set(rows(table, study="a")["verdict"]) == {""}
    assert rows(top1, defence="new")["delta"].isna().all()


def test_verdicts_follow_holms_correction_over_the_table(two: dict) -> None:
    table = joined({name: collect(*files) for name, files in two.items()})
    assert table["p_holm"].tolist() == pytest.approx(holm(table["p"].tolist()), nan_ok=True)
    assert table["p"].notna().sum() == 4  # defences of both studies, and knowledges
    errors = rows(table, study="b", metric="mse")
    shown = errors[errors["verdict"] == "higher"]
    assert shown[["defence", "knowledge"]].to_numpy().tolist() == [
        ["noise", "train_data"],
        ["noise", "public_data"],
    ]
    assert set(errors["verdict"]) == {"higher", "no difference shown"}


def test_a_failed_result_is_counted_and_never_a_number(tmp_path: Path) -> None:
    first, other = study(tmp_path, "a", FIRST), study(tmp_path, "b", {"noise": [0.7, 0.71]})
    other.add_run("noise", 2, experiment="b", status="failed", reason="diverged")
    table = joined({s.root.name: collect(s.runs, s.attacks) for s in (first, other)})
    (row,) = rows(table, study="b", metric="top1").to_dict("records")
    assert (row["n_seeds"], row["n_failed"]) == (3, 1)
    assert row["mean"] == pytest.approx(0.705)


def test_the_texts_hold_the_numbers(two: dict, tmp_path: Path) -> None:
    written = write_joined(two, tmp_path / "joined/sets")
    assert [path.name for path in written] == ["sets.csv", "sets.md", "sets.tex"]
    table, text, latex = pd.read_csv(written[0]), written[1].read_text(), written[2].read_text()
    assert len(table) == len(joined({name: collect(*files) for name, files in two.items()}))
    half = ttest_ind(OTHER["noise"], FIRST["noise"], equal_var=False).confidence_interval().high
    mean = np.mean(OTHER["noise"]) - 0.9
    assert f"{100 * mean:+.2f} ± {100 * (half - mean):.2f} |" in text
    assert f"{-0.1 * mean:+.4f} ± {0.1 * (half - mean):.4f}* |" in text
    assert f"over all {table['p'].notna().sum()} differences" in text
    assert "| new | - | 50.00 ± 0.00 | - |" in text
    assert r"defence & a & b & $\Delta$, b \\" in latex
    assert "nan" not in text.lower()


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ([1.0], [2.0, 3.0]),
        ([1.0, 1.0], [2.0, 2.0]),
        ([], [1.0, 2.0]),
        ([math.inf, 1.0], [1.0, 2.0]),
    ],
)
def test_samples_that_say_nothing_of_their_spread_have_no_p(
    first: list[float], second: list[float]
) -> None:
    found = welch_difference(first, second)
    assert math.isnan(found.p)
    assert math.isnan(found.low)


def test_missing_values_are_left_out() -> None:
    whole, holed = [1.0, 2.0, 4.0], [1.0, math.nan, 2.0, 4.0]
    assert welch_difference(holed, [0.0, 1.0]) == welch_difference(whole, [0.0, 1.0])


def test_the_command_names_what_it_lacks(capsys: pytest.CaptureFixture[str]) -> None:
    config = str(Path(__file__).parents[1] / "configs/tiny.yaml")
    assert main(["join", "twice", config, config]) == 2
    assert "at least two experiments, each once" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["join", "../up", config, config])
