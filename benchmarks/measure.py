"""Time calls with `torch.utils.benchmark`, and compare them.

The floor of a computation is its number of floating-point operations over the rate at which this
machine multiplies large matrices. The same products cannot be computed much faster; element-wise
operations, memory and Python come on top.
"""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch
from torch.utils.benchmark import Measurement, Timer
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.setting import Scale
from cemlib.numerics.precision import resolve

Call = Callable[[], object]
Row = dict[str, Any]
SIDES = {"cpu": 2_048, "cuda": 8_192}  # large enough that arithmetic decides the time


def measured(calls: Sequence[Call], scale: Scale) -> list[Measurement]:
    """Time calls in turns, so that a busy machine slows all of them alike."""
    timers = [
        Timer("call()", globals={"call": call}, num_threads=scale.threads, label=str(number))
        for number, call in enumerate(calls)
    ]
    rounds = [
        timer.blocked_autorange(min_run_time=scale.seconds)
        for _ in range(scale.rounds)
        for timer in timers
    ]
    return Measurement.merge(rounds)


def compare(
    name: str,
    ours: Call,
    scale: Scale,
    *,
    reference: Call | None = None,
    operations: float | None = None,
    precision: str = "float32",
    images: int | None = None,
    count: int = 1,
) -> Row:
    """Time one of our calls, of `count` units of work such as steps, beside its reference.

    `operations` (floating-point, for the floor) and `images` are those of one unit.
    """
    found = measured([ours] if reference is None else [ours, reference], scale)
    floor = None if operations is None else operations / rate(scale, precision)
    return row(name, *found, floor=floor, images=images, count=count)


def row(
    name: str,
    ours: Measurement,
    reference: Measurement | None = None,
    *,
    floor: float | None = None,
    images: int | None = None,
    count: float = 1,
) -> Row:
    """Return the figures of a unit of work, with times in ms, and None for what is unknown."""
    found: Row = {"name": name, **_spread("ours", ours, count)}
    found |= _spread("reference", reference, count)
    own, other = found["ours_ms"], found["reference_ms"]
    if images is not None:
        found["ours_images_per_second"] = 1e3 * images / own
        found["reference_images_per_second"] = None if other is None else 1e3 * images / other
    found["times_faster"] = None if other is None else other / own
    found["floor_ms"] = None if floor is None else 1e3 * floor
    found["floor_share"] = None if floor is None else 1e3 * floor / own
    return found


def flops(call: Call) -> float:
    """Return the floating-point operations of a call's convolutions and matrix products."""
    with FlopCounterMode(display=False) as counter:
        call()
    return float(counter.get_total_flops())


@cache
def rate(scale: Scale, precision: str) -> float:
    """Return the FLOP/s of a large matrix product."""
    side = SIDES[scale.device]
    left, right = torch.rand(2, side, side, device=scale.device, dtype=getattr(torch, precision))
    timer = Timer("left @ right", globals={"left": left, "right": right}, num_threads=scale.threads)
    return 2.0 * side**3 / min(timer.blocked_autorange(min_run_time=1.0).times)


def best_precision(scale: Scale) -> str:
    """Return the precision that `precision: auto` chooses on this machine."""
    return resolve("auto", torch.device(scale.device))


def _spread(side: str, found: Measurement | None, count: float) -> Row:
    """Return median, fastest and slowest time in milliseconds."""
    names = (f"{side}_ms", f"{side}_fastest_ms", f"{side}_slowest_ms")
    if found is None:
        return dict.fromkeys(names)
    seconds = (found.median, min(found.times), max(found.times))
    return {name: 1e3 * value / count for name, value in zip(names, seconds, strict=True)}
