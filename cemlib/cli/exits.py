"""The exit codes of the commands, and the exceptions that stand for some of them."""

from collections.abc import Iterable, Iterator
from pathlib import Path


class FailedResultsError(RuntimeError):
    """A training or an attack diverged; lines that were printed before say which."""


class ProblemsError(RuntimeError):
    """`doctor` found a problem."""


OK, ERROR, USAGE, DIVERGED, CLOSED = 0, 1, 2, 3, 141

EXIT_CODES = {
    OK: "success",
    ERROR: "jobs of a study failed, `doctor` found a problem, or a `pctc` command refused its"
    " settings or its round failed",
    USAGE: "wrong usage, or a file or configuration that cannot be used; a line for each fault",
    DIVERGED: (
        "success, but a training or an attack diverged: a line says which and why, and tables and"
        " figures show it as failed"
    ),
    130: "interrupted by Ctrl-C; run the same command again to continue",
    CLOSED: "the reader of the output closed it, as `head` does",
    143: "terminated by SIGTERM; run the same command again to continue",
}


def failing_at_end(written: Iterable[Path | str]) -> Iterator[Path | str]:
    """Yield what jobs yield: the files that they wrote, and a line for each failed result.

    Raises:
        FailedResultsError: at the end, if there was such a line.
    """
    failed = False
    for each in written:
        failed = failed or (isinstance(each, str) and each.startswith("failed: "))
        yield each
    if failed:
        raise FailedResultsError
