"""Reading metrics files: what is read, and that every defect is named with its file."""

import math
from typing import Any

import pytest
from synthetic_study import Study, change

from cemlib.records.files import FileError, read_json, write_text
from cemlib.records.seal import write_sealed
from cemlib.report.tables import collect


def small(study: Study) -> Study:
    for seed in (0, 1):
        study.add_run("noise", seed, top1=0.9 + seed / 100)
        study.add_attack("noise", seed, "linear", "train_data", mse=0.01 + seed / 1000)
    return study


def test_every_file_becomes_a_row(study: Study) -> None:
    runs, attacks = collect(small(study).runs, study.attacks)
    assert runs["top1"].tolist() == [0.9, 0.91]
    assert attacks["mse"].tolist() == [0.01, 0.011]
    assert runs["commit"].tolist() == ["0123456789" * 4] * 2
    assert attacks["folder"].tolist() == [str(path.parent) for path in study.attacks]


def test_null_means_unbounded_or_unknown_where_a_job_succeeded(study: Study) -> None:
    study.add_run("none", 0, leakage_nats=None)
    study.add_attack("none", 0, psnr=None, psnr_of_mean_mse=None, mse=0)
    runs, attacks = collect(study.runs, study.attacks)
    assert runs["leakage_nats"][0] == math.inf
    assert attacks[["psnr", "psnr_of_mean_mse"]].iloc[0].tolist() == [math.inf, math.inf]
    assert math.isnan(attacks["late_improvement"][0])
    assert attacks["converged"][0] is None


def test_a_failed_job_has_a_reason_and_no_numbers_whatever_its_record_says(study: Study) -> None:
    failed = {"status": "failed", "reason": "loss is nan"}
    study.add_run("noise", 0, **failed, top1=0.1, leakage_nats=3.0)
    study.add_attack("noise", 0, **failed, recon_top1=0.1)
    runs, attacks = collect(study.runs, study.attacks)
    assert attacks["reason"][0] == "loss is nan"
    assert runs[["top1", "leakage_nats"]].isna().all(axis=None)
    assert attacks[["mse", "psnr", "ssim", "recon_top1"]].isna().all(axis=None)


@pytest.mark.parametrize("key", ["top1", "seed", "status", "provenance", "leakage_nats", "epochs"])
def test_a_missing_key_is_named_with_its_file(study: Study, key: str) -> None:
    path = small(study).runs[1]
    write_sealed(path, {k: v for k, v in read_json(path).items() if k != key})
    with pytest.raises(FileError, match=f"seed1.metrics.json: no key '{key}'.*rerun"):
        collect(study.runs, study.attacks)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mse": None}, "mse is missing although the status is 'ok'"),
        ({"recon_top1": None}, "recon_top1 is missing although the status is 'ok'"),
        ({"kind": "run"}, "not the metrics file of a result of kind 'attack'"),
    ],
)
def test_a_wrong_value_is_named_with_its_file(
    study: Study, changes: dict[str, Any], message: str
) -> None:
    path = small(study).attacks[1]
    change(path, **changes)
    with pytest.raises(FileError, match=message) as caught:
        collect(study.runs, study.attacks)
    assert str(path.parent) in str(caught.value)


def test_a_file_that_is_no_record_is_named(study: Study) -> None:
    """Missing and broken ones are in `test_files.py`."""
    write_text(small(study).attacks[0], "[1, 2]")
    with pytest.raises(FileError, match=r"linear-train_data.metrics\.json: not a JSON object"):
        collect(study.runs, study.attacks)
