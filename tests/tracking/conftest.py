"""Fixtures: a store in a SQLite file, a result folder for it, and one real MLflow server."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.error import URLError

import pytest
from toy_study import Store, Study, fetch, free_port


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Content of a store as `track` creates it: its schema takes seconds, so it is made once."""
    folder = tmp_path_factory.mktemp("empty")
    uri = f"sqlite:///{folder / 'mlflow.db'}"
    Study(folder / "none", uri).track(experiment="empty")
    return (folder / "mlflow.db").read_bytes()


@pytest.fixture
def store(tmp_path: Path, empty_store: bytes) -> Store:
    (tmp_path / "mlflow.db").write_bytes(empty_store)
    return Store(f"sqlite:///{tmp_path / 'mlflow.db'}")


@pytest.fixture
def study(tmp_path: Path, store: Store) -> Study:
    return Study(tmp_path / "results" / "toy", store.uri)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory, empty_store: bytes) -> Iterator[str]:
    """Address of a real MLflow server on loopback."""
    folder = tmp_path_factory.mktemp("server")
    (folder / "mlflow.db").write_bytes(empty_store)
    port = free_port()
    command = [sys.executable, "-m", "mlflow", "server", "--workers", "1", "--port", str(port)]
    command += ["--backend-store-uri", f"sqlite:///{folder / 'mlflow.db'}"]
    command += ["--artifacts-destination", str(folder / "artifacts")]
    with (folder / "server.log").open("w") as log:
        process = subprocess.Popen(
            command, cwd=folder, env=_server_environment(), stdout=log, stderr=log
        )
    address = f"http://127.0.0.1:{port}"
    try:
        _wait(f"{address}/health", process, folder / "server.log")
        yield address
    finally:
        process.terminate()
        process.wait(20)


def _server_environment() -> Mapping[str, str]:
    quiet = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "MLFLOW_DISABLE_TELEMETRY": "true"}
    return {**os.environ, **quiet}


def _wait(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    last: Exception | None = None
    for _ in range(1200):  # a busy machine starts a server slowly
        try:
            with fetch(address):
                return
        except (URLError, TimeoutError) as error:
            assert process.poll() is None, log.read_text()
            last = error
            time.sleep(0.1)
    raise TimeoutError(f"{address}: {last!r}\n{log.read_text()}")
