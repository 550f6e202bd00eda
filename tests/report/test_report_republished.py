"""How tables that were made again differ from the published ones."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from cemlib.report.publish import differences

TABLE: dict[str, list[Any]] = {
    "defence": ["none", "noise"],
    "mse": [0.001234, 0.002],
    "bound": [float("inf"), 3.0],
    "verdict": ["", "higher"],
    "wall_seconds": [1.0, 2.0],
}


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, "equal"),
        ({"mse": [0.0012341, 0.002], "wall_seconds": [9.0, 9.0]}, "equal"),
        ({"mse": [0.0013, 0.0021]}, "mse: 2 of 2 differ, first in line 2: 0.001234 -> 0.0013"),
        ({"bound": [5.0, 3.0]}, "bound: 1 of 2 differ, first in line 2: ∞ -> 5"),
        ({"verdict": ["", "lower"]}, "verdict: 1 of 2 differ, first in line 3: higher -> lower"),
        ({"ssim": [0.5, 0.6]}, "new ssim"),
        ({"mse": None}, "no more mse"),
        ({"defence": ["none", "gated"]}, "other rows: 2 before, 2 now"),
    ],
)
def test_what_differs_by_more_than_is_printed(
    tmp_path: Path, changes: dict[str, Any], told: str
) -> None:
    for name, content in (("before", TABLE), ("now", TABLE | changes)):
        (tmp_path / name).mkdir()
        kept = {column: values for column, values in content.items() if values is not None}
        pd.DataFrame(kept).to_csv(tmp_path / name / "runs.csv", index=False)
    assert list(differences(tmp_path / "before", tmp_path / "now")) == [f"runs.csv: {told}"]


def test_a_table_that_is_not_made_any_more_is_named(tmp_path: Path) -> None:
    (tmp_path / "old.csv").write_text("a\n1\n")
    assert list(differences(tmp_path, tmp_path / "now")) == ["old.csv: not made any more"]
