"""The prepared images of the tiny study."""

import pytest
from tiny_federation import study_of

from cemlib.data.prepare import prepare
from cemlib.data.prepared import Prepared


@pytest.fixture(scope="session")
def data() -> Prepared:
    """The prepared images."""
    return prepare(study_of().data)
