"""Trackers as real processes: several at once on a store that does not exist yet, and killed ones.

The processes are forked, so that they need not import mlflow again.
"""

import os
import signal
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from toy_study import Store, Study, until

FORK = get_context("fork")


def test_four_trackers_on_a_fresh_store_after_one_that_was_killed_creating_it(
    tmp_path: Path,
) -> None:
    place = tmp_path / "store"
    uri = f"sqlite:///{place / 'mlflow.db'}"
    study = _fill(Study(tmp_path / "toy", uri=uri), runs=2)
    killed = _start(study)
    until(lambda: any(file.stat().st_size for file in place.glob(".mlflow.*.db")))
    _kill(killed)
    assert not (place / "mlflow.db").exists()
    names = ["toy", "toy", "study0", "study1"]
    trackers = [_start(study, experiment=name) for name in names]
    for tracker in trackers:
        tracker.join(60)
    assert [tracker.exitcode for tracker in trackers] == [0] * 4
    for name in set(names):
        runs = Store(uri, name).runs()
        assert len(runs) == 4, name
        for run in runs.values():
            assert run.info.status == "FINISHED"
        curve = Store(uri, name).points(runs["runs/none/seed1"], "curve/train_loss")
        assert curve == [(1, 2.0), (2, 1.0), (3, 2 / 3)]


def test_a_tracker_killed_while_it_uploads(study: Study, store: Store) -> None:
    _fill(study, runs=12)
    tracker = _start(study)
    until(lambda: store.finished() > 2)
    _kill(tracker)
    summary = study.track()
    assert summary.uploaded > 0
    assert summary.unchanged > 2
    runs = store.runs()
    assert len(runs) == 24
    for run in runs.values():
        assert run.info.status == "FINISHED"
        assert "metrics.json" in store.files(run)
    again = study.track()
    assert (again.uploaded, again.unchanged) == (0, 24)


def _fill(study: Study, runs: int) -> Study:
    for seed in range(runs):
        study.add_attack("none", seed, "decoder")
    return study


def _start(study: Study, **changes: Any) -> Any:
    import mlflow.store.tracking.sqlalchemy_store  # noqa: F401  (before the fork: seconds each)

    tracker = FORK.Process(target=study.track, kwargs=changes)
    tracker.start()
    return tracker


def _kill(tracker: Any) -> None:
    os.kill(tracker.pid, signal.SIGKILL)
    tracker.join(20)
    assert tracker.exitcode == -signal.SIGKILL
