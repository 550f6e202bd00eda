"""Opening an MLflow store: a SQLite file, used by one process at a time, or a server."""

import fcntl
import logging
import os
import re
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TextIO
from urllib.parse import urlsplit

from cemlib.records.files import atomic
from cemlib.tracking.notes import STUDY

if TYPE_CHECKING:
    from mlflow import MlflowClient

SQLITE = "sqlite:///"
NOTE = "mlflow.note.content"  # tag: a description in Markdown
# For mlflow, unless the user says otherwise: no reports home, no bars, and about 15 s of patience
# with a server that does not answer instead of several minutes.
SETTINGS = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "4",
    "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "30",
}
AGAIN = "the result folder is untouched, so `track` can be repeated at any time"
BUSY = 30.0  # seconds to wait for another program that is writing the database
TURN = 600.0  # and for other trackers, who may have a whole study to upload


class TrackingError(RuntimeError):
    """The MLflow store cannot be used; the message names it and says what to do.

    The result folder is untouched: once the store is well, the same upload can be repeated.
    """


@dataclass(frozen=True)
class Store:
    """An open MLflow store: its client and its address without any password in it."""

    client: "MlflowClient"
    address: str
    artifacts: Path | None  # folder for the artifacts of new experiments; None: the server's choice

    def experiment(self, name: str) -> str:
        """Return the id of an experiment, creating it on first use."""
        found = self.client.get_experiment_by_name(name)
        if found is not None:
            if found.lifecycle_stage != "active":
                raise TrackingError(
                    f"{self.address}: the experiment {name!r} was deleted there; restore it with"
                    f" `mlflow experiments restore --experiment-id {found.experiment_id}`"
                    " or give the study another name"
                )
            return str(found.experiment_id)
        place = None if self.artifacts is None else (self.artifacts / name).absolute().as_uri()
        created = str(self.client.create_experiment(name, place))
        self.client.set_experiment_tag(created, NOTE, STUDY.format(id=created))
        return created


@contextmanager
def open_store(uri: str) -> Iterator[Store]:
    """Open a store for writing, alone if it is a SQLite file.

    Artifacts of a new experiment go to `mlartifacts` beside it, or where the server puts them.

    Args:
        uri: `sqlite:///FILE`, created where there is none, or the `http(s)://` address of a server.

    Raises:
        TrackingError: if the store cannot be used.
    """
    database, address = database_of(uri), without_password(uri)
    _prepare_mlflow()
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException
    from sqlalchemy.exc import SQLAlchemyError

    try:
        if database is None:
            yield Store(MlflowClient(uri), address, None)
            return
        artifacts = database.parent / "mlartifacts"
        with _alone(database):
            _check_or_create(database, artifacts)
            yield Store(MlflowClient(f"{SQLITE}{database}"), f"{SQLITE}{database}", artifacts)
    except (MlflowException, SQLAlchemyError) as error:
        raise TrackingError(f"{address}: {_reason(error)}; {AGAIN}") from error


def _prepare_mlflow() -> None:
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    # The creation of a store tells of every step of its schema.
    for noisy in ("alembic", "mlflow.store.db.utils"):
        logging.getLogger(noisy).setLevel(logging.WARNING)


def database_of(uri: str) -> Path | None:
    """Return the absolute path of a SQLite store, or None for a server.

    Raises:
        TrackingError: if it is the address of neither.
    """
    if uri.startswith(("http://", "https://")):
        _check_address(uri)
        return None
    name = uri.removeprefix(SQLITE)
    if not uri.startswith(SQLITE) or name in ("", ":memory:") or "?" in name:
        raise TrackingError(
            f"{without_password(uri)}: not a store that can be used here; give sqlite:///FILE, or"
            " the http(s) address of an `mlflow server` (which may keep its runs in any database)"
        )
    return Path(name).absolute()


def _check_address(uri: str) -> None:
    try:
        found = urlsplit(uri)
        host, _ = found.hostname, found.port
    except ValueError as error:
        raise TrackingError(f"{without_password(uri)}: no address ({error}); mend it") from error
    if not host or re.search(r"\s", uri):
        raise TrackingError(f"{without_password(uri)}: no address of a server; mend it")


@contextmanager
def _alone(database: Path) -> Iterator[None]:
    """Wait until no other tracker uses the database, and keep them out meanwhile."""
    try:
        database.parent.mkdir(parents=True, exist_ok=True)
        handle = database.with_name(f"{database.name}.lock").open("w")
    except OSError as error:
        raise TrackingError(f"{SQLITE}{database}: cannot be written ({error})") from error
    with handle:
        _take_turn(handle, database)
        yield


def _take_turn(handle: TextIO, database: Path) -> None:
    end = time.monotonic() + TURN
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if time.monotonic() > end:
                raise TrackingError(
                    f"{SQLITE}{database}: another `cemlib track` has been using it for"
                    f" {TURN:.0f} s; wait for it, or end it if it hangs; {AGAIN}"
                ) from error
            time.sleep(0.1)
        else:
            return


def _check_or_create(database: Path, artifacts: Path) -> None:
    """Create a store whole or not at all: half a schema, left by an interruption, is past help."""
    if database.exists():
        check_database(database)
        return
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    with atomic(database) as temporary:
        place = artifacts.absolute().as_uri()
        store = SqlAlchemyStore(f"{SQLITE}{temporary}", place)  # type: ignore[no-untyped-call]
        store.engine.dispose()


def check_database(database: Path) -> None:
    """Refuse, after `BUSY` seconds at most, what mlflow would try to write for minutes."""
    try:
        with closing(sqlite3.connect(database, timeout=BUSY)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.rollback()
    except sqlite3.OperationalError as error:
        raise TrackingError(
            f"{SQLITE}{database}: cannot be written ({error}); end what else is using it, or make"
            f" room, or give the right to write; {AGAIN}"
        ) from error
    except sqlite3.DatabaseError as error:
        raise TrackingError(
            f"{SQLITE}{database}: not a usable SQLite file ({error}); move it away and repeat:"
            " everything is uploaded anew from the result folder"
        ) from error


def _reason(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return without_password(lines[0])[:500] if lines else type(error).__name__


def without_password(text: str) -> str:
    """Return a text with every address as it is without its user and password."""
    return re.sub(r"//[^/\s]*@", "//", text)
