"""Progress of long work: a live bar on a terminal, one line per epoch anywhere else."""

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from tqdm import tqdm

Numbers = Mapping[str, float | None]


@contextmanager
def progress(title: str, epochs: int, done: int = 0) -> Iterator[Callable[[int, Numbers], None]]:
    """Yield the function that shows each finished epoch, and some numbers, on standard error."""
    start = time.perf_counter()

    def print_line(epoch: int, numbers: Numbers) -> None:
        elapsed = time.perf_counter() - start
        left = elapsed / max(1, epoch - done) * (epochs - epoch)
        filled = "#" * (20 * epoch // epochs)
        print(
            f"{title} [{filled:<20}] epoch {epoch}/{epochs} {_join(numbers)}"
            f" | {elapsed:.0f} s, {left:.0f} s left",
            file=sys.stderr,
            flush=True,
        )

    # Some terminals have no width, and tqdm could draw no bar there.
    if not (sys.stderr.isatty() and os.get_terminal_size(sys.stderr.fileno()).columns > 0):
        yield print_line
        return
    with tqdm(total=epochs, initial=done, desc=title, unit="epoch", dynamic_ncols=True) as bar:

        def move_bar(epoch: int, numbers: Numbers) -> None:
            bar.update(epoch - bar.n)
            bar.set_postfix_str(_join(numbers))

        yield move_bar


def _join(numbers: Numbers) -> str:
    return " ".join(f"{name} {value:.4g}" for name, value in numbers.items() if value is not None)
