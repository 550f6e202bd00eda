"""One finished run of the tiny study for the whole session, and a copy of it for each test."""

from pathlib import Path

import pytest
from checkout import Checkout, Outcome, tiny


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> tuple[Checkout, Outcome]:
    """The finished study, not to be changed, and what Snakemake said while it ran."""
    checkout = Checkout.create(tmp_path_factory.mktemp("base") / "checkout")
    checkout.configure(tiny())
    outcome = checkout.snakemake()
    assert outcome.code == 0, outcome.output
    return checkout, outcome


@pytest.fixture
def finished(base: tuple[Checkout, Outcome], tmp_path: Path) -> Checkout:
    """A copy of the finished study in which everything may be changed."""
    return base[0].copy(tmp_path / "checkout")


@pytest.fixture
def fresh(tmp_path: Path) -> Checkout:
    """A copy of the repository in which nothing has run."""
    checkout = Checkout.create(tmp_path / "checkout")
    checkout.configure(tiny())
    return checkout
