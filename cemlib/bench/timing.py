"""Wall times with their spread, memory, and how two times compare.

A timing is a dict of plain numbers: `milliseconds` (the median), `fastest`, `slowest`, and
`peak_memory_mib`, what the first call needed beyond what was there; null where it is not known.
"""

import ctypes
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

Timing = dict[str, Any]
Call = Callable[[], object]
SPREAD = ("milliseconds", "fastest", "slowest")
_STATUS, _RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


@dataclass(frozen=True)
class Work:
    """Something to time: a call, and how many it does of what is counted (steps, say)."""

    run: Call
    count: int = 1


def timed(run: Call, repeats: int, device: str, *, warm_up: bool = True, count: int = 1) -> Timing:
    """Time one call; see `alternately`."""
    return alternately([Work(run, count)], repeats, device, warm_up=warm_up)[0]


def alternately(
    works: Sequence[Work], repeats: int, device: str, *, warm_up: bool = True
) -> list[Timing]:
    """Time several works in turns, so that what else the machine does concerns all of them.

    Args:
        works: what is timed; times are of one of what each counts.
        repeats: timed calls of each.
        device: `cpu` or `cuda`; a card is waited for.
        warm_up: whether a first call of each is not timed.
    """
    seconds: list[list[float]] = [[] for _ in works]
    memory: list[float | None] = []
    for work, found in zip(works, seconds, strict=True):
        before = memory_mib(device)
        first = _seconds(work, device)
        after = memory_mib(device, peak=True)
        memory.append(None if before is None or after is None else after - before)
        found += [] if warm_up else [first]
    for _ in range(repeats - (not warm_up)):
        for work, found in zip(works, seconds, strict=True):
            found.append(_seconds(work, device))
    pairs = zip(seconds, memory, strict=True)
    return [summary(times) | {"peak_memory_mib": grown} for times, grown in pairs]


def side_by_side(
    ours: Work, reference: Work | None, repeats: int, device: str, *, warm_up: bool = True
) -> tuple[Timing, Timing | None]:
    """Time ours and the reference in turns, or ours alone; arguments as for `alternately`."""
    if reference is None:
        return alternately([ours], repeats, device, warm_up=warm_up)[0], None
    found = alternately([ours, reference], repeats, device, warm_up=warm_up)
    return found[0], found[1]


def summary(seconds: list[float]) -> Timing:
    """Median, fastest and slowest of times in seconds, in milliseconds."""
    found = (statistics.median(seconds), min(seconds), max(seconds))
    return {name: 1e3 * value for name, value in zip(SPREAD, found, strict=True)}


def compared(
    ours: Timing, reference: Timing | None, against: str, floor: float | None = None
) -> dict[str, Any]:
    """One line of the benchmark.

    Args:
        ours: timing of this package.
        reference: timing of what it is held against; None where there is none to be had.
        against: what the reference is, or why there is none.
        floor: milliseconds that the arithmetic alone needs, where it decides the cost.

    Returns:
        These, with `times_faster`, the ratio of the medians, and `floor_share`, the floor's share
        of our time; null where they have no meaning.
    """
    own = ours["milliseconds"]
    return {
        "ours": ours,
        "reference": reference,
        "against": against,
        "times_faster": None if reference is None else reference["milliseconds"] / own,
        "floor_milliseconds": floor,
        "floor_share": None if floor is None else floor / own,
    }


def wait(device: str) -> None:
    """Wait until a card has done what it was given."""
    if device == "cuda":
        torch.cuda.synchronize()


def memory_mib(device: str, *, peak: bool = False) -> float | None:
    """Memory in use, or its highest since the last call for the former; None where unknown.

    On the CPU it is known where Linux and the GNU C library tell it.
    """
    if device == "cuda":
        if not peak:
            torch.cuda.reset_peak_memory_stats()
        return torch.cuda.max_memory_allocated() / 2**20
    library = ctypes.CDLL(None)
    if not (_RESET.exists() and hasattr(library, "malloc_trim")):
        return None
    if not peak:
        library.malloc_trim(0)  # what was freed before must not pass for unused
        _RESET.write_text("5")  # starts the kernel's high-water mark anew
    name = "VmHWM:" if peak else "VmRSS:"
    line = next(line for line in _STATUS.read_text().splitlines() if line.startswith(name))
    return int(line.split()[1]) / 1024


def _seconds(work: Work, device: str) -> float:
    start = time.perf_counter()
    work.run()
    wait(device)
    return (time.perf_counter() - start) / work.count
