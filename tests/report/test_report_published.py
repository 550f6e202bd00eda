"""What README and documents say of the published digits, from the scores of its single runs."""

from pathlib import Path

import pandas as pd
import pytest

from cemlib.report.claims import claims
from cemlib.report.comparisons import comparisons_table

FOLDER = Path(__file__).parents[2] / "results/published/digits"


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    rows = pd.read_csv(FOLDER / "runs.csv")
    runs = rows.drop_duplicates(["defence", "seed"])
    return comparisons_table(runs, rows, tuple(runs["defence"].unique()), "noise")


def test_the_published_comparisons_are_those_of_the_runs(table: pd.DataFrame) -> None:
    """In the columns that it has: it is from before the correction over the study."""
    published = pd.read_csv(FOLDER / "comparisons.csv").fillna({"knowledge": ""})
    columns = ["difference", "ci_low", "ci_high", "p", "p_holm"]
    keys = ["defence", "reference", "knowledge", "metric", "n_pairs"]
    assert table[keys].equals(published[keys])
    for column in columns:
        assert table[column].tolist() == pytest.approx(published[column].tolist(), rel=1e-6)


def test_one_comparison_of_72_differs_but_no_attack_had_converged(table: pd.DataFrame) -> None:
    found = table[table["p_holm_study"] < 0.05]
    assert len(table) == table["p_holm_study"].notna().sum() == 72
    names = found[["defence", "metric", "knowledge"]].to_numpy().tolist()
    assert names == [["logdet", "ssim", "public_data"]]
    assert found["difference"].tolist() == pytest.approx([-0.0330], abs=5e-5)
    privacy = table["metric"] != "top1"
    assert set(table.loc[privacy, "verdict"]) == {"unconverged"}
    assert set(table.loc[~privacy, "verdict"]) == {"no difference shown"}
    assert "## Shown\n\nNothing.\n" in claims(table)


def test_the_example_of_a_correction(table: pd.DataFrame) -> None:
    rows = table.set_index(["defence", "knowledge", "metric"])
    found = rows.loc[("clustering", "train_data", "mse"), ["p", "p_holm", "p_holm_study"]]
    assert found.tolist() == pytest.approx([0.0054, 0.036, 0.33], rel=0.02)
