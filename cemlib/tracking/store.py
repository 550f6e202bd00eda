"""Open an MLflow store: a SQLite file, used by one process at a time, or a server."""

import logging
import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from cemlib.records.files import FileError, atomic
from cemlib.records.lock import locked
from cemlib.tracking.notes import STUDY

if TYPE_CHECKING:
    from mlflow import MlflowClient

SQLITE = "sqlite:///"
NOTE = "mlflow.note.content"  # tag: a description in Markdown
# MLflow's settings where the user has none: no telemetry, no progress bars, and an unreachable
# server is reported after about 15 s instead of several minutes.
SETTINGS = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "4",
    "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "30",
}
AGAIN = "the result folder is untouched, so `track` can be repeated at any time"
BUSY = 30.0  # seconds to wait for another program that is writing the database
TURN = 600.0  # seconds to wait for other trackers, which may have a whole study to upload
HELD = f"is uploading to this store; wait for it, or end it if it hangs; {AGAIN}"


class TrackingError(FileError):
    """The MLflow store cannot be used; the message names it and says what to do."""


@dataclass(frozen=True)
class Store:
    """An open MLflow store: its client, and its address without a password."""

    client: "MlflowClient"
    address: str
    artifacts: Path | None  # folder for artifacts of new experiments; None: the server decides

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
            address = urlsplit(found.artifact_location)
            there = Path(unquote(address.path)).resolve()
            own = self.artifacts and (self.artifacts / name).resolve()
            if own is not None and address.scheme == "file" and there != own:
                raise TrackingError(
                    f"{self.address}: keeps the files of {name!r} in {there}, so the database was"
                    " moved or copied; move it away and repeat: everything is uploaded anew from"
                    " the result folder"
                )
            return str(found.experiment_id)
        place = None if self.artifacts is None else (self.artifacts / name).as_uri()
        created = str(self.client.create_experiment(name, place))
        self.client.set_experiment_tag(created, NOTE, STUDY.format(id=created))
        return created


@contextmanager
def open_store(uri: str) -> Iterator[Store]:
    """Open `sqlite:///FILE`, which is locked, and created if missing, or an `http(s)://` server.

    Artifacts of a new experiment go to `mlartifacts` beside the file; a server has its own place.

    Raises:
        TrackingError: if the store cannot be used, or MLflow is not installed.
        FileError: if another process has been uploading to it for `TURN` seconds.
    """
    database, address = database_of(uri), without_password(uri)
    _prepare_mlflow()
    try:
        from mlflow import MlflowClient
        from mlflow.exceptions import MlflowException
        from sqlalchemy.exc import SQLAlchemyError
    except ImportError as error:
        raise TrackingError(f"{error}; pip install 'cemlib[workflow]'") from error
    try:
        if database is None:
            yield Store(MlflowClient(uri), address, None)
            return
        artifacts = database.parent / "mlartifacts"
        with locked(database.with_name(f"{database.name}.lock"), HELD, TURN):
            _check_or_create(database, artifacts)
            yield Store(MlflowClient(f"{SQLITE}{database}"), f"{SQLITE}{database}", artifacts)
    except (MlflowException, SQLAlchemyError) as error:
        lines = str(error).strip().splitlines()
        reason = without_password(lines[0])[:500] if lines else type(error).__name__
        raise TrackingError(f"{address}: {reason}; {AGAIN}") from error


def _prepare_mlflow() -> None:
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    # MLflow logs every step of the schema when it creates a store.
    for noisy in ("alembic", "mlflow.store.db.utils"):
        logging.getLogger(noisy).setLevel(logging.WARNING)


def database_of(uri: str) -> Path | None:
    """Return the path of a SQLite store, or None for a server; raise TrackingError otherwise."""
    if re.fullmatch(r"https?://(\S+@)?(\[[\da-fA-F:]+\]|[^\s\[\]/:@]+)(:\d+)?(/\S*)?", uri):
        return None
    name = uri.removeprefix(SQLITE)
    if not uri.startswith(SQLITE) or name in ("", ":memory:") or "?" in name:
        raise TrackingError(
            f"{without_password(uri)}: not a store that can be used here; give sqlite:///FILE, or"
            " the http(s) address of an `mlflow server` (which may keep its runs in any database)"
        )
    return Path(name).absolute()


def _check_or_create(database: Path, artifacts: Path) -> None:
    """Check a store, or create it atomically: MLflow cannot repair one with half a schema."""
    if database.exists():
        check_database(database)
        return
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    with atomic(database) as temporary:
        store = SqlAlchemyStore(f"{SQLITE}{temporary}", artifacts.as_uri())  # type: ignore[no-untyped-call]
        store.engine.dispose()


def check_database(database: Path) -> None:
    """Raise TrackingError in `BUSY` s if a database cannot be written; MLflow tries for minutes."""
    try:
        with closing(sqlite3.connect(database, timeout=BUSY)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.rollback()
    except sqlite3.OperationalError as error:
        raise TrackingError(
            f"{SQLITE}{database}: cannot be written ({error}); end what else is using it, free"
            f" some space, or grant write permission; {AGAIN}"
        ) from error
    except sqlite3.DatabaseError as error:
        raise TrackingError(
            f"{SQLITE}{database}: not a usable SQLite file ({error}); move it away and repeat:"
            " everything is uploaded anew from the result folder"
        ) from error


def without_password(text: str) -> str:
    """Return a text with user and password removed from every address."""
    return re.sub(r"(?<!/)//([^/\s:@]*:\S*|[^/\s]*)@", "//", text)
