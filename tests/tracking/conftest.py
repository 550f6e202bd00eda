"""Fixtures: a store in a SQLite file, a result folder for it, and one real MLflow server."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from mlflow_server import running
from ports import free_port
from toy_study import Store, Study


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Content of a store as `track` creates it: its schema takes seconds, so it is made once."""
    folder = tmp_path_factory.mktemp("empty")
    uri = f"sqlite:///{folder / 'mlflow.db'}"
    Study(folder / "none", uri=uri).track(experiment="empty")
    return (folder / "mlflow.db").read_bytes()


@pytest.fixture
def store(tmp_path: Path, empty_store: bytes) -> Store:
    (tmp_path / "mlflow.db").write_bytes(empty_store)
    return Store(f"sqlite:///{tmp_path / 'mlflow.db'}")


@pytest.fixture
def study(tmp_path: Path, store: Store) -> Study:
    return Study(tmp_path / "results" / "toy", uri=store.uri)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory, empty_store: bytes) -> Iterator[str]:
    """Address of a real MLflow server on loopback."""
    folder = tmp_path_factory.mktemp("server")
    (folder / "mlflow.db").write_bytes(empty_store)
    port = free_port()
    with running(folder, port):
        yield f"http://127.0.0.1:{port}"
