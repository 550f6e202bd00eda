"""Uploads to a real MLflow server on loopback."""

import os
import shutil
import signal
import threading
from pathlib import Path

import pytest
import torch
from mlflow_server import running
from toy_study import Store, Study, curve, free_port

from cemlib.defences.deployed import load_deployed
from cemlib.records.files import write_jsonl
from cemlib.records.layout import RunFolder
from cemlib.tracking import TrackingError

ATTACK = "runs/none/seed0/attacks/decoder-train_data"
SEEDS, POINTS = range(8), 200  # so many that an upload takes a while


def test_a_server_holds_each_result_once(study: Study, server: str) -> None:
    study.uri, store = server, Store(server)
    study.add_run("none", 0)
    study.add_attack("none", 0, "decoder")
    study.add_report()
    assert study.track().uploaded == 3
    before = {name: run.info.run_id for name, run in store.runs().items()}
    assert study.track().unchanged == 3
    runs = store.runs()
    assert {name: run.info.run_id for name, run in runs.items()} == before
    assert store.points(runs["runs/none/seed0"], "curve/train_loss")[-1] == (3, 2 / 3)
    assert store.files(runs["report"], "figures") == {"figures/privacy.png"}
    assert "reconstructions.png" in store.files(runs[ATTACK])


def test_a_classifier_is_loaded_from_the_store(study: Study, server: str) -> None:
    """As docs/mlflow.md loads it, without the result folder."""
    study.uri, store = server, Store(server, "with_model")
    network = study.add_model("none", 0)
    study.track("with_model")
    shutil.rmtree(study.root)
    run = store.runs()["runs/none/seed0"]
    folder = store.client.download_artifacts(run.info.run_id, "")
    loaded = load_deployed(RunFolder(Path(folder)), torch.device("cpu"))
    images = torch.randint(256, (5, 1, 8, 8), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected = network.head(network.encoder(images / 255))
    found = loaded.logits(loaded.features(images.to(torch.uint8)), torch.Generator())
    torch.testing.assert_close(found, expected)


class Upload(threading.Thread):
    """An upload beside the test, and the error that ends it."""

    def __init__(self, study: Study) -> None:
        super().__init__(daemon=True)
        self.study, self.error = study, ""

    def run(self) -> None:
        try:
            self.study.track()
        except TrackingError as error:
            self.error = str(error)


def finished(store: Store) -> int:
    """Return how many runs are finished; a doubled one would be counted twice."""
    if store.experiment() is None:
        return 0
    found = store.client.search_runs([store.experiment().experiment_id])
    return sum(run.info.status == "FINISHED" for run in found)


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
    results, upload = 2 * len(SEEDS) + 1, Upload(study)
    with running(tmp_path, port) as group:
        upload.start()
        while finished(store) < 3:
            assert upload.is_alive(), upload.error
        os.killpg(group, ended_by)
    upload.join(120)
    assert "the result folder is untouched" in upload.error
    assert 0 < finished(store) < results
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
