"""A training killed in the middle ends with the same bits as one that was left alone.

Clustering is killed in `faults/test_kills.py`, logdet and pruning in `test_training_defences.py`.
"""

from pathlib import Path
from typing import Any

import pytest
import torch
from killed_job import first_epoch_shown, kill_after
from tiny_study import outcome, tiny_plan, trained

from cemlib.records.checkpoint import Checkpoint
from cemlib.records.files import read_jsonl
from cemlib.records.provenance import library_versions
from cemlib.study.split import attack_job, train_job
from cemlib.training.job import checkpoint_place, run


@pytest.mark.parametrize(
    ("defence", "select", "killed_after", "epochs"),
    [
        ("gated", "best_val", 6, 12),
        pytest.param("gmm", "last", 3, 9, marks=pytest.mark.slow),
        ("task_aware", "last", 3, 9),
    ],
)
def test_a_killed_training_ends_with_the_same_bits(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    defence: str,
    select: str,
    killed_after: int,
    epochs: int,
) -> None:
    settings: dict[str, Any] = {"epochs": epochs, "select": select}
    alone = trained(tmp_path / "alone", defence, **settings)
    plan = tiny_plan(tmp_path / "killed", **settings)
    kill_after(killed_after, "train", str(tmp_path / "killed"), defence, str(epochs), select)
    killed = plan.layout.run(defence, 0)
    assert not killed.metrics.exists()
    assert killed_after <= len(read_jsonl(killed.history)) < epochs
    capsys.readouterr()
    run(train_job(plan, defence, 0, "cpu"))
    assert first_epoch_shown(capsys.readouterr().err) > killed_after
    assert outcome(killed) == outcome(alone)
    assert not list((tmp_path / "killed/.checkpoints").iterdir())


def test_another_configuration_never_meets_a_checkpoint(tmp_path: Path) -> None:
    plan, other = tiny_plan(tmp_path, epochs=3), tiny_plan(tmp_path, epochs=4)
    places = [
        train_job(plan, "noise", 0).checkpoint("data"),
        train_job(plan, "noise", 1).checkpoint("data"),
        train_job(plan, "noise", 0).checkpoint("other data"),
        train_job(plan, "none", 0).checkpoint("data"),
        train_job(plan, "gated", 0).checkpoint("data"),
        train_job(other, "noise", 0).checkpoint("data"),
        attack_job(plan, "noise", 0, ["decoder"]).checkpoint("data"),
        attack_job(plan, "noise", 1, ["decoder"]).checkpoint("data"),
        attack_job(plan, "noise", 0, ["linear"]).checkpoint("data"),
        attack_job(plan, "noise", 0, ["decoder"]).checkpoint("other data"),
        attack_job(other, "noise", 0, ["decoder"]).checkpoint("data"),
    ]
    assert len(set(places)) == len(places)
    assert train_job(plan, "noise", 0).checkpoint("data") == places[0]


def test_another_device_or_library_never_meets_a_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = tiny_plan(tmp_path)
    here = checkpoint_place(train_job(plan, "noise", 0, "cpu"))
    with monkeypatch.context() as card:
        card.setattr(torch.cuda, "is_available", lambda: True)
        assert checkpoint_place(train_job(plan, "noise", 0, "cuda")) != here
    newer = library_versions() | {"torch": "99.0"}
    monkeypatch.setattr("cemlib.study.job.library_versions", lambda: newer)
    assert checkpoint_place(train_job(plan, "noise", 0, "cpu")) != here


def test_a_foreign_checkpoint_is_neither_read_nor_removed(tmp_path: Path) -> None:
    other = tiny_plan(tmp_path, epochs=2)
    foreign = Checkpoint(checkpoint_place(train_job(other, "noise", 0, "cpu")))
    foreign.save({}, {"unreadable": True})
    assert outcome(trained(tmp_path, "noise", epochs=1)) == outcome(
        trained(tmp_path / "clean", "noise", epochs=1)
    )
    assert foreign.load() == ({}, {"unreadable": True})
