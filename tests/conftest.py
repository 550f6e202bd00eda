"""How the tests are spread over processes (`make test` runs two), and what they inherit."""

import os
import signal

import pytest

# Two processes share the cores: a second thread in each would only wait, and waiting is spinning.
# Set before anything imports torch; the programs that tests start have it from here.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

TOGETHER = ("workflow", "tracking", "report")  # one study, store or server for all their files
LONGEST = ("workflow", "faults", "tracking", "tests", "bench", "training", "attacks")


def pytest_configure() -> None:
    """Let Ctrl-C reach the programs that tests start.

    A shell that starts a job in the background has it ignored, in all that the job starts too.
    """
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep tests that share an expensive fixture in one process; start the longest groups first.

    Before xdist's own hook, which reads the groups. The short ones at the end even out what the
    processes still have to do.
    """
    for item in items:
        room, file = item.path.parent.name, item.path.stem
        item.add_marker(pytest.mark.xdist_group(room if room in TOGETHER else f"{room}/{file}"))
    items.sort(key=_place)


def _place(item: pytest.Item) -> int:
    room = item.path.parent.name
    return LONGEST.index(room) if room in LONGEST else len(LONGEST)
