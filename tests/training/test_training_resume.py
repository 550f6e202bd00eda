"""A training that died in the middle ends with the same bits as one that was left alone.

In `faults/test_kills.py` processes are killed.
"""

import random
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from damaging import flipped
from killed_job import Dying, first_shown
from killing import only_checkpoint
from result_files import bits
from tiny_study import blob_data, tiny_plan, trained

from cemlib.data.prepared import load, save
from cemlib.records.files import read_json, read_jsonl
from cemlib.records.provenance import library_versions
from cemlib.study.split import attack_job, train_job
from cemlib.training.job import checkpoint_place, new_trainer, run


@pytest.mark.parametrize(
    ("defence", "select", "died_after", "damaged"),
    [
        # Before the surrogate's own parameters join the optimiser, and after.
        ("gated", "last", 5, False),
        ("gated", "best_val", 6, False),
        ("gmm", "last", 3, False),
        ("task_aware", "last", 3, False),
        # After the pruning: the smaller client, its optimiser and ARL's own come back.
        ("everything", "best_val", 4, False),
        # A damaged checkpoint is ignored, and the job starts from the beginning.
        ("clustering", "best_val", 4, True),
    ],
)
def test_an_interrupted_training_ends_with_the_same_bits(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    defence: str,
    select: str,
    died_after: int,
    damaged: bool,
) -> None:
    settings: dict[str, Any] = {"epochs": 9, "select": select}
    alone = trained(tmp_path / "alone", defence, **settings)
    plan = tiny_plan(tmp_path / "died", **settings)
    died, job = plan.layout.run(defence, 0), train_job(plan, defence, 0)
    dying = partial(Dying, writes_left=died_after)
    with monkeypatch.context() as patch:
        patch.setattr("cemlib.training.job.Checkpoint", dying)
        with pytest.raises(KeyboardInterrupt):
            run(job)
    assert not died.metrics.exists()
    assert len(read_jsonl(died.history)) == died_after
    checkpoint = only_checkpoint(tmp_path / "died")
    if damaged:
        checkpoint.path.write_bytes(flipped(checkpoint.path.read_bytes(), random.Random(1)))
    capsys.readouterr()
    run(job)
    said = capsys.readouterr().err
    assert said.startswith(f"{checkpoint.path}: damaged") is damaged
    assert first_shown(said) == (1 if damaged else died_after + 1)
    assert bits(died.root) == bits(alone.root)
    assert not list((tmp_path / "died/.checkpoints").iterdir())


def test_another_configuration_never_meets_a_checkpoint(tmp_path: Path) -> None:
    plan, other = tiny_plan(tmp_path, epochs=3), tiny_plan(tmp_path, epochs=4)
    sharing = replace(plan, study=plan.study.model_copy(update={"experiment": "sharing"}))
    places = [
        train_job(plan, "noise", 0).checkpoint("data"),
        train_job(plan, "noise", 1).checkpoint("data"),
        train_job(plan, "noise", 0).checkpoint("other data"),
        train_job(plan, "none", 0).checkpoint("data"),
        train_job(other, "noise", 0).checkpoint("data"),
        train_job(sharing, "noise", 0).checkpoint("data"),
        attack_job(plan, "noise", 0, ["decoder"]).checkpoint("data"),
        attack_job(plan, "noise", 0, ["linear"]).checkpoint("data"),
        attack_job(other, "noise", 0, ["decoder"]).checkpoint("data"),
    ]
    assert len(set(places)) == len(places)
    assert train_job(plan, "noise", 0).checkpoint("data") == places[0]


def test_the_record_names_the_images_that_were_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Although others lie in their place when the training ends."""
    plan = tiny_plan(tmp_path, epochs=1)
    before = load(plan.layout.data).sha256

    def prepared_again(*arguments: Any) -> Any:
        save(blob_data(train=64), plan.layout.data)
        return new_trainer(*arguments)

    monkeypatch.setattr("cemlib.training.job.new_trainer", prepared_again)
    (metrics,) = run(train_job(plan, "none", 0))
    assert read_json(metrics)["data_sha256"] == before != load(plan.layout.data).sha256


def test_another_device_or_library_never_meets_a_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = tiny_plan(tmp_path)
    data = load(plan.layout.data)
    here = checkpoint_place(train_job(plan, "noise", 0), data)
    with monkeypatch.context() as card:
        card.setattr(torch.cuda, "is_available", lambda: True)
        assert checkpoint_place(train_job(replace(plan, device="cuda"), "noise", 0), data) != here
    newer = library_versions() | {"torch": "99.0"}
    monkeypatch.setattr("cemlib.study.job.library_versions", lambda: newer)
    assert checkpoint_place(train_job(plan, "noise", 0), data) != here
