"""The published comparisons of the study `surrogates`, computed again from its single runs."""

from pathlib import Path

import pandas as pd
import pytest

from cemlib.report.comparisons import comparisons_table

FOLDER = Path(__file__).parents[2] / "results/published/surrogates"


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    rows = pd.read_csv(FOLDER / "runs.csv")
    runs = rows.drop_duplicates(["defence", "seed"])
    return comparisons_table(runs, rows, tuple(runs["defence"].unique()), "noise")


def test_the_published_comparisons_are_those_of_the_runs(table: pd.DataFrame) -> None:
    """In the columns that it has: it is from before the correction over the study."""
    published = pd.read_csv(FOLDER / "comparisons.csv").fillna({"knowledge": ""})
    published = published[published["metric"] != "psnr"].reset_index(drop=True)
    keys = ["defence", "reference", "knowledge", "metric", "n_pairs"]
    assert table[keys].equals(published[keys])
    for column in ("difference", "ci_low", "ci_high"):
        assert table[column].tolist() == pytest.approx(published[column].tolist(), rel=1e-6)
    tested = table["metric"] == "mse"
    assert table.loc[tested, "p"].tolist() == pytest.approx(published.loc[tested, "p"].tolist())
