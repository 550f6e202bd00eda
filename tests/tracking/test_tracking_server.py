"""Uploads to a real MLflow server on loopback."""

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from mlflow_server import running
from ports import free_port
from toy_study import Store, Study, curve

from cemlib.records.files import write_jsonl
from cemlib.tracking import TrackingError

ATTACK = "runs/none/seed0/attacks/decoder-train_data"
SEEDS, POINTS = range(8), 200  # so many that an upload takes a while


def test_a_server_holds_each_result_once(study: Study, server: str) -> None:
    study.uri, store = server, Store(server)
    study.add_attack("none", 0, "decoder")
    study.add_report()
    assert study.track().uploaded == 3
    before = _everything(store)
    assert study.track().unchanged == 3
    assert _everything(store) == before
    runs = store.runs()
    assert store.points(runs["runs/none/seed0"], "curve/train_loss")[-1] == (3, 2 / 3)
    assert store.files(runs["report"], "figures") == {"figures/privacy.png"}
    assert "reconstructions.png" in store.files(runs[ATTACK])


def _everything(store: Store) -> dict[str, Any]:
    """All that each run holds, and every point of its metrics."""
    return {
        folder: (run.to_dictionary(), {name: store.points(run, name) for name in run.data.metrics})
        for folder, run in store.runs().items()
    }


@pytest.mark.slow
@pytest.mark.parametrize("ended_by", [signal.SIGKILL, signal.SIGTERM])
def test_a_server_that_ends_in_the_middle_has_everything_once_in_the_end(
    tmp_path: Path, store: Store, ended_by: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
    port = free_port()
    study = Study(tmp_path / "results/toy", uri=f"http://127.0.0.1:{port}")
    for seed in SEEDS:
        write_jsonl(study.add_run("none", seed).history, curve(POINTS))
        study.add_attack("none", seed, "decoder")
    study.add_report()
    results = 2 * len(SEEDS) + 1
    with ThreadPoolExecutor(1) as pool:
        with running(tmp_path, port) as group:
            upload = pool.submit(study.track)
            while store.finished() < 3:
                assert not upload.done(), upload.exception()
            os.killpg(group, ended_by)
        with pytest.raises(TrackingError, match="the result folder is untouched"):
            upload.result(120)
    assert 0 < store.finished() < results
    with running(tmp_path, port):
        summary = study.track()
        assert summary.uploaded + summary.unchanged == results
        assert summary.unchanged > 0
        _has_everything_once(Store(study.uri), store, results)
        assert study.track().unchanged == results
        _has_everything_once(Store(study.uri), store, results)


def _has_everything_once(served: Store, kept: Store, results: int) -> None:
    """Look by way of the server, which hands out the files, and in the database itself."""
    runs = kept.runs()
    assert len(runs) == results
    assert {run.info.status for run in runs.values()} == {"FINISHED"}
    for seed in SEEDS:
        points = kept.points(runs[f"runs/none/seed{seed}"], "curve/train_loss")
        assert points == [(n, 2.0 / n) for n in range(1, POINTS + 1)]
    assert runs["report"].info.artifact_uri.startswith("mlflow-artifacts:")
    assert served.files(runs["report"], "figures") == {"figures/privacy.png"}
