"""Uploads that cannot be: each says what is wrong, and with what."""

from pathlib import Path

import pytest
from toy_study import Store, Study, free_port

from cemlib.files import FileError, write_json
from cemlib.tracking import TrackingError


def test_a_damaged_result_is_named(study: Study) -> None:
    folder = study.add_run("none", 0)
    folder.metrics.write_text("{")
    with pytest.raises(FileError, match=r"seed0/metrics\.json: not valid JSON"):
        study.track()
    write_json(folder.metrics, {"status": "ok", "config": {}})
    with pytest.raises(FileError, match=r"metrics\.json: no provenance, wall_seconds in it"):
        study.track()


@pytest.mark.parametrize("uri", ["mlruns", "postgresql://h/x", "sqlite:///:memory:", "sqlite:///"])
def test_an_address_of_no_store(study: Study, uri: str) -> None:
    study.uri = uri
    with pytest.raises(TrackingError, match="give sqlite:///FILE"):
        study.track()


@pytest.mark.parametrize("uri", ["http://[h", "http://h:port", "http://a b", "https://"])
def test_an_address_of_no_server(study: Study, uri: str) -> None:
    study.uri = uri
    with pytest.raises(TrackingError, match="mend it"):
        study.track()


def test_a_file_that_is_no_store(study: Study, tmp_path: Path) -> None:
    (tmp_path / "mlflow.db").write_text("no database, but long enough to look like one\n" * 100)
    with pytest.raises(TrackingError, match=r"mlflow\.db: not a usable SQLite file"):
        study.track()


def test_a_server_that_is_away(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
    study.add_run("none", 0)
    study.uri = f"http://me:secret@127.0.0.1:{free_port()}"
    with pytest.raises(TrackingError, match="can be repeated") as caught:
        study.track()
    assert "127.0.0.1" in str(caught.value)
    assert "secret" not in str(caught.value)


def test_an_experiment_deleted_in_mlflow(study: Study, store: Store) -> None:
    study.track()
    identity = store.experiment().experiment_id
    store.client.delete_experiment(identity)
    with pytest.raises(TrackingError, match=f"experiments restore --experiment-id {identity}"):
        study.track()
