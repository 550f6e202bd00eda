"""Progress of long work: a live bar on a terminal, one line per epoch anywhere else."""

import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol

from tqdm import tqdm

Numbers = Mapping[str, float | None]


class Report(Protocol):
    """Called after every epoch with its number and the figures worth showing."""

    def __call__(self, epoch: int, numbers: Numbers) -> None:
        """Show one finished epoch."""


@contextmanager
def progress(title: str, epochs: int, done: int = 0) -> Iterator[Report]:
    """Yield the function that shows each finished epoch on standard error."""
    if not _is_terminal():
        yield _Lines(title, epochs, done)
        return
    with tqdm(total=epochs, initial=done, desc=title, unit="epoch", dynamic_ncols=True) as bar:

        def show(epoch: int, numbers: Numbers) -> None:
            bar.update(epoch - bar.n)
            bar.set_postfix_str(_join(numbers))

        yield show


def _is_terminal() -> bool:
    """Return whether a live bar can be drawn; some terminals have no width."""
    return sys.stderr.isatty() and os.get_terminal_size(sys.stderr.fileno()).columns > 0


class _Lines:
    def __init__(self, title: str, epochs: int, done: int) -> None:
        self._title, self._epochs, self._first = title, epochs, done
        self._start = time.perf_counter()

    def __call__(self, epoch: int, numbers: Numbers) -> None:
        elapsed = time.perf_counter() - self._start
        left = elapsed / max(1, epoch - self._first) * (self._epochs - epoch)
        filled = "#" * (20 * epoch // self._epochs)
        print(
            f"{self._title} [{filled:<20}] epoch {epoch}/{self._epochs} {_join(numbers)}"
            f" | {elapsed:.0f} s, {left:.0f} s left",
            file=sys.stderr,
            flush=True,
        )


def _join(numbers: Numbers) -> str:
    return " ".join(f"{name} {value:.4g}" for name, value in numbers.items() if value is not None)
