"""Progress of long work: one line per epoch, or per other unit of work."""

import sys
import time
from collections.abc import Callable, Mapping

Numbers = Mapping[str, float | None]


def progress(
    title: str, total: int, done: int = 0, unit: str = "epoch"
) -> Callable[[int, Numbers], None]:
    """Return the function that shows each finished unit, and some numbers, on standard error."""
    start = time.perf_counter()

    def print_line(number: int, numbers: Numbers) -> None:
        elapsed = time.perf_counter() - start
        left = elapsed / max(1, number - done) * (total - number)
        known = (f"{name} {value:.4g}" for name, value in numbers.items() if value is not None)
        line = f"{title} {unit} {number}/{total} {' '.join(known)}"
        print(f"{line} | {elapsed:.0f} s, {left:.0f} s left", file=sys.stderr, flush=True)

    return print_line
