"""A finished study of two seeds for whoever only reads, and a copy of it to spoil."""

from pathlib import Path

import pytest
from finished_study import Finished


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """Prepared, trained, attacked and tabulated by the commands themselves; not to be changed."""
    study = Finished(tmp_path_factory.mktemp("finished"))
    study.configure()
    for command in (["prepare"], ["train"], ["attack"], ["report", "--only", "tables"]):
        study.says(*command)
    return study


@pytest.fixture
def spoilt(finished: Finished, tmp_path: Path) -> Finished:
    """A copy that may be changed."""
    return finished.copy(tmp_path / "copy")
