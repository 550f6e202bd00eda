"""Seeds that several machines computed, published together."""

import math
from pathlib import Path

import pandas as pd
import pytest
from synthetic_study import DEFENCES, Study, fill

from cemlib.records.files import FileError
from cemlib.report.build import Results, pooled, write_figures, write_tables
from cemlib.report.tables import read_runs

OF_IMAGES = ["boot_low", "boot_high"]


def of_seeds(study: Study, seeds: set[int]) -> Results:
    runs, attacks = study.frames()
    chosen = (frame[frame["seed"].isin(seeds)] for frame in (runs, attacks))
    return Results(*chosen, DEFENCES, reference="noise")


def test_tables_of_pooled_seeds_are_those_of_one_machine(study: Study, tmp_path: Path) -> None:
    """Of a study whose last run has failed, and one of its attacks."""
    failed = {"status": "failed", "reason": "diverged"}
    fill(study, DEFENCES).add_attack("gated", 0, "decoder", "public_data", **failed)
    study.add_run("slot", 2, **failed)
    published, root = tmp_path / "published", study.root
    write_tables(of_seeds(study, {0, 2}), root, published)
    both = pooled(of_seeds(study, {1}), root, published / "runs.csv")
    out = tmp_path / "pooled"
    written = [*write_tables(both, root, out), *write_figures(both, out)]
    write_tables(of_seeds(study, {0, 1, 2}), root, tmp_path / "whole")
    for name in ("runs", "summary"):
        texts = [(tmp_path / place / f"{name}.csv").read_text() for place in ("pooled", "whole")]
        assert texts[0] == texts[1]
    found, whole = (
        pd.read_csv(tmp_path / place / "comparisons.csv") for place in ("pooled", "whole")
    )
    assert found[OF_IMAGES].isna().all(axis=None)
    assert whole.loc[whole["metric"] == "mse", "boot_low"].notna().all()
    pd.testing.assert_frame_equal(found.drop(columns=OF_IMAGES), whole.drop(columns=OF_IMAGES))
    pictures = {path.stem for path in written if path.suffix == ".png"}
    assert {"accuracy_mse", "overview", "comparisons-train_data"} <= pictures
    assert not {name for name in pictures if "curves" in name or "reconstructions" in name}


@pytest.mark.parametrize(
    ("seeds", "change", "fault"),
    [
        ({1, 2}, {}, r"runs\.csv: has none, seed 1 already; choose the seeds that it lacks"),
        ({2}, {"experiment": "else"}, r"runs\.csv: belongs to another experiment, else"),
        ({2}, {"defence": "lost"}, r"runs\.csv: has lost, which is not in the study"),
        ({2}, {"attack": "decoder"}, r"runs\.csv: has other attacks \(linear, .*all seeds"),
    ],
)
def test_what_does_not_go_together_is_refused(
    full_study: Study, tmp_path: Path, seeds: set[int], change: dict[str, str], fault: str
) -> None:
    write_tables(of_seeds(full_study, {0, 1}), full_study.root, tmp_path)
    table = tmp_path / "runs.csv"
    pd.read_csv(table).assign(**change).to_csv(table, index=False)
    with pytest.raises(FileError, match=fault):
        pooled(of_seeds(full_study, seeds), full_study.root, table)


def test_a_study_that_is_not_published_is_named(full_study: Study, tmp_path: Path) -> None:
    with pytest.raises(
        FileError, match=r"runs\.csv: no such file; publish the first seeds without"
    ):
        pooled(of_seeds(full_study, {0}), full_study.root, tmp_path / "runs.csv")


def test_a_table_without_a_newer_column_is_read(full_study: Study, tmp_path: Path) -> None:
    write_tables(of_seeds(full_study, {0}), full_study.root, tmp_path)
    table = tmp_path / "runs.csv"
    pd.read_csv(table).drop(columns="chance_top1").to_csv(table, index=False)
    runs, _ = read_runs(table)
    assert all(map(math.isnan, runs["chance_top1"]))


def test_a_defence_may_be_called_as_a_missing_value(study: Study, tmp_path: Path) -> None:
    names = ("None", "NA")
    for name in names:
        study.add_attack(name, 0)
    write_tables(Results(*study.frames(), names, reference="NA"), study.root, tmp_path)
    for frame in read_runs(tmp_path / "runs.csv"):
        assert frame["defence"].tolist() == list(names)
