"""A benchmark small enough to be measured in seconds."""

import pytest

from cemlib.bench.scale import Scale

TINY = Scale(
    network="small",
    image_size=16,
    batch=64,
    attack_batch=16,
    samples=400,
    steps=1,
    passes=2,
    repeats=2,
    images=100,
    workers=0,
    processes=1,
    sizes=(100, 200),
    class_counts=(2, 4),
    cluster_counts=(1, 2),
    dims=(16, 32),
)


@pytest.fixture(scope="session")
def tiny() -> Scale:
    return TINY
