"""Uploads that cannot be: stores that are locked, away, damaged or of another version."""

import shutil
import socket
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from toy_study import Store, Study

from cemlib.records.files import FileError
from cemlib.records.lock import locked
from cemlib.tracking import TrackingError
from cemlib.tracking import store as store_module
from cemlib.tracking.store import without_password

# Holds a lock until its standard input ends, and says when it has it.
WRITER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
connection.execute(sys.argv[2])
print("locked", flush=True)
sys.stdin.read()
"""


@contextmanager
def held(database: str, lock: str) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds a lock; closing its input, or killing it, frees it."""
    command = [sys.executable, "-c", WRITER, database, lock]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout.readline() == "locked\n"
        try:
            yield process
        finally:
            process.kill()


@pytest.fixture
def database(store: Store) -> str:
    return store.uri.removeprefix("sqlite:///")


@pytest.mark.parametrize("lock", ["BEGIN EXCLUSIVE", "BEGIN IMMEDIATE"])
def test_a_database_that_another_program_keeps_locked(
    study: Study, database: str, monkeypatch: pytest.MonkeyPatch, lock: str
) -> None:
    study.add_run("none", 0)
    monkeypatch.setattr(store_module, "BUSY", 0.2)
    with held(database, lock), pytest.raises(TrackingError) as caught:
        study.track()
    assert "cannot be written (database is locked); end what else is using it" in str(caught.value)
    assert study.track().uploaded == 1


def test_a_database_that_is_locked_for_a_while(study: Study, database: str) -> None:
    study.add_run("none", 0)
    with held(database, "BEGIN EXCLUSIVE") as writer:
        release = threading.Timer(0.7, writer.kill)
        release.start()
        assert study.track().uploaded == 1
        release.join()


def test_a_tracker_that_hangs(study: Study, database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    study.add_run("none", 0)
    monkeypatch.setattr(store_module, "TURN", 0.2)
    with locked(Path(f"{database}.lock"), "hangs"), pytest.raises(FileError, match="is uploading"):
        study.track()
    assert study.track().uploaded == 1


def test_a_server_that_is_no_mlflow(study: Study, tmp_path: Path) -> None:
    study.add_run("none", 0)
    handler = partial(SimpleHTTPRequestHandler, directory=tmp_path / "empty")
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        study.uri = f"http://127.0.0.1:{server.server_port}"
        with pytest.raises(
            TrackingError, match=rf"127.0.0.1:{server.server_port}.*can be repeated"
        ):
            study.track()
        server.shutdown()


@pytest.fixture
def copied(study: Study, database: str, tmp_path: Path) -> Path:
    """A copy of a store with one run: MLflow looks at a store's version once in a process."""
    study.add_run("none", 0)
    study.track()
    study.uri = f"sqlite:///{tmp_path / 'copy.db'}"
    return Path(shutil.copyfile(database, tmp_path / "copy.db"))


@pytest.mark.usefixtures("copied")
def test_a_store_of_the_version_before(study: Study) -> None:
    """Taken back by MLflow's own migration; it brings such a store forward by itself."""
    from alembic import command
    from mlflow.store.db.utils import _get_alembic_config

    command.downgrade(_get_alembic_config(study.uri), "-1")
    study.add_run("none", 1)
    summary = study.track()
    assert (summary.uploaded, summary.unchanged) == (1, 1)
    assert len(Store(study.uri).runs()) == 2


def test_a_store_whose_version_mlflow_refuses(study: Study, copied: Path) -> None:
    with closing(sqlite3.connect(copied)) as connection, connection:
        (version,) = connection.execute("SELECT version_num FROM alembic_version").fetchone()
        connection.execute("UPDATE alembic_version SET version_num = '17e22815139b'")
    with pytest.raises(TrackingError, match="mlflow db upgrade") as caught:
        study.track()
    assert study.uri in str(caught.value)
    with closing(sqlite3.connect(copied)) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = ?", [version])
    assert study.track().unchanged == 1


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        *(
            (uri, "give sqlite:///FILE")
            for uri in ("mlruns", "sqlite:///", "sqlite:///x.db?mode=ro", "http://[h", "https://")
        ),
        # Whoever writes past the server would put the files where nobody else finds them.
        *(
            (
                f"postgresql://me:{password}@h/db",
                r"//h/db: .* http\(s\) address of an `mlflow server`",
            )
            for password in ("secret", "with/a/secret", "with@secret")
        ),
    ],
)
def test_an_address_of_no_store_or_server(study: Study, uri: str, message: str) -> None:
    study.uri = uri
    with pytest.raises(TrackingError, match=message) as caught:
        study.track()
    assert "secret" not in str(caught.value)


def test_a_file_name_is_no_password() -> None:
    assert without_password("sqlite:///me@host.db") == "sqlite:///me@host.db"
    for start in ("see https:", "", "x='"):
        assert without_password(f"{start}//me:a@b@host/x") == f"{start}//host/x"


def test_mlflow_may_not_be_installed(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(TrackingError, match=r"mlflow.*pip install 'cemlib\[workflow\]'"):
        study.track()


@pytest.mark.parametrize("listens", [False, True])
def test_a_server_that_is_away_or_does_not_answer(
    study: Study, monkeypatch: pytest.MonkeyPatch, listens: bool
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "1")
    study.add_run("none", 0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        study.uri = f"http://me:secret@127.0.0.1:{silent.getsockname()[1]}"
        if not listens:
            silent.close()
        with pytest.raises(TrackingError, match="can be repeated") as caught:
            study.track()
    assert "127.0.0.1" in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_database_that_was_moved_is_not_written_into_the_old_place(
    study: Study, tmp_path: Path
) -> None:
    study.add_run("none", 0)
    study.track()
    (tmp_path / "moved").mkdir()
    place = Path(study.uri.removeprefix("sqlite:///"))
    shutil.move(place, tmp_path / "moved/mlflow.db")
    study.uri = f"sqlite:///{tmp_path / 'moved/mlflow.db'}"
    study.add_run("none", 1)
    with pytest.raises(TrackingError, match="the database was moved or copied"):
        study.track()


def test_an_experiment_deleted_in_mlflow(study: Study, store: Store) -> None:
    study.track()
    identity = store.experiment().experiment_id
    store.client.delete_experiment(identity)
    with pytest.raises(TrackingError, match=f"experiments restore --experiment-id {identity}"):
        study.track()
