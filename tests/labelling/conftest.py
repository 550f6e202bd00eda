"""What the tests of deployed parties share: keys, certificates, threads, a round in them."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from deployed import SECONDS, Parties, dealt


@pytest.fixture(scope="session")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return dealt(tmp_path_factory.mktemp("parties") / "keys")


@pytest.fixture(scope="session")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Other keys, and certificates with the same names of another authority."""
    return dealt(tmp_path_factory.mktemp("elsewhere") / "keys")


@pytest.fixture
def running(keys: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Parties]:
    """A round whose aggregator waits for the number of seconds in the parameter."""
    with ThreadPoolExecutor(6) as pool:
        yield Parties(pool, keys, tmp_path, getattr(request, "param", SECONDS))
