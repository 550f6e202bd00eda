"""What a command's exit code says: the one list, for `--help` and docs/commands.md."""

from collections.abc import Iterable, Iterator
from pathlib import Path


class FailedResultsError(RuntimeError):
    """Everything was carried out, but some results are failed ones; what was printed names them."""


class ProblemsError(RuntimeError):
    """Some finding of `doctor` is a problem."""


OK, ERROR, USAGE, DIVERGED, CLOSED = 0, 1, 2, 3, 141

EXIT_CODES = {
    OK: "all was carried out",
    ERROR: "jobs of a whole study failed, or `doctor` found a problem",
    USAGE: "a wrong call, or a file or configuration that cannot be used: a line for each fault",
    DIVERGED: (
        "all was carried out, but some run or attack is a failed one: its loss diverged."
        " A line says which and why, and tables and figures show it as failed"
    ),
    130: "ended by Ctrl-C; a line says how to go on",
    CLOSED: "whoever read the output closed it, as `head` does",
    143: "ended by SIGTERM; a line says how to go on",
}


def failing_at_end(written: Iterable[Path | str]) -> Iterator[Path | str]:
    """Yield what jobs yield: the files they wrote, and a line for each failed result.

    Raises:
        FailedResultsError: after all of them, if there was such a line.
    """
    failed = False
    for each in written:
        failed = failed or (isinstance(each, str) and each.startswith("failed: "))
        yield each
    if failed:
        raise FailedResultsError
