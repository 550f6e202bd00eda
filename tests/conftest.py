"""How the tests are spread over processes (`make test` runs two)."""

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep tests that share an expensive fixture in one process; start the longest group first."""
    for item in items:
        shared = item.path.parent if item.path.parent.name == "workflow" else item.path
        item.add_marker(pytest.mark.xdist_group(str(shared)))
    items.sort(key=lambda item: item.path.parent.name != "workflow")
