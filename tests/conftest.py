"""How the tests are spread over processes (`make test` runs two), and what they inherit."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest

_HERE = Path(__file__).parent
# Two processes share the cores: a second thread in each would only wait, and waiting is spinning.
# Set before anything imports torch; the programs that tests start have it from here.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

# And they import this package, not one that is installed, and the helpers of the tiny study.
_places = (_HERE.parent, _HERE, _HERE / "training", os.environ.get("PYTHONPATH", ""))
os.environ["PYTHONPATH"] = os.pathsep.join(map(str, _places))

TOGETHER = ("workflow", "tracking", "report", "cli")  # one study or store for all their files
LONGEST = ("workflow", "faults", "tracking", "report", "tests", "federated", "search", "training")


def pytest_configure() -> None:
    """Let Ctrl-C reach the programs that tests start.

    A shell that starts a job in the background has it ignored, in all that the job starts too.
    """
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Seed torch before each test and its fixtures, so that they draw the same in every run."""
    import torch  # only now, when the numbers of threads above are set

    torch.manual_seed(0)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start the longest tests first; the short ones at the end even out what is still to do."""
    items.sort(key=_place)


def _place(item: pytest.Item) -> int:
    folder = item.path.parent.name
    return LONGEST.index(folder) if folder in LONGEST else len(LONGEST)


@pytest.hookimpl(optionalhook=True)  # of xdist
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keep tests that share an expensive fixture in one process, in the order given above.

    xdist's own groups are lost on pytest 9.2, which does not take the names that xdist gives.
    """
    from xdist.scheduler import LoadScopeScheduling

    class Together(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = Path(nodeid.split("::")[0])
            return file.parent.name if file.parent.name in TOGETHER else str(file)

    config.option.loadscopereorder = False  # it would put groups of many tests first
    return Together(config, log)


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """No network."""
    for variable in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(variable, "http://127.0.0.1:9")  # nothing listens on the discard port
    monkeypatch.setenv("no_proxy", "")
    # urllib keeps the opener of its first call, with the proxies of that moment, for the process.
    monkeypatch.setattr("urllib.request._opener", None)
