"""Fixtures of a synthetic study."""

from pathlib import Path

import pytest
from page_study import page_study
from synthetic_study import Study, fill


@pytest.fixture
def study(tmp_path: Path) -> Study:
    """An empty study, for a test to fill."""
    return Study(tmp_path / "results" / "synthetic")


@pytest.fixture(scope="session")
def full_study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    """Five defences, three seeds, three attacks, two knowledges: for reading only."""
    return fill(Study(tmp_path_factory.mktemp("results") / "synthetic"))


@pytest.fixture(scope="session")
def paged(tmp_path_factory: pytest.TempPathFactory) -> Study:
    """The study of the results page, for reading only."""
    return page_study(tmp_path_factory.mktemp("results") / "synthetic")
