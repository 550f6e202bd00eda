"""The arithmetic floor: what convolutions and matrix products alone would take.

The floor of a computation is its floating-point operations over the rate at which this machine
multiplies large matrices, measured in the same run on as many threads. No arrangement of the same
products is much faster; what is done per element, memory and Python come on top.
"""

from functools import cache

import torch
from torch.utils.flop_counter import FlopCounterMode

from cemlib.bench.timing import Call, timed
from cemlib.precision import resolve

_SIDES = {"cpu": 2_048, "cuda": 8_192}  # large enough that a product is nothing but arithmetic
_REPEATS = 10


@cache
def matrix_rates(device: str, threads: int) -> dict[str, float]:
    """FLOP/s of a large matrix product, by precision; measured once a process.

    The fastest of a few products counts: a floor is what the machine can do. bfloat16 is there
    where the hardware multiplies it.
    """
    torch.set_num_threads(threads)
    best = resolve("auto", torch.device(device))
    return {precision: _rate(device, precision) for precision in dict.fromkeys(("float32", best))}


def floor_ms(flops: float, device: str, threads: int, precision: str = "float32") -> float:
    """Milliseconds that so many operations need at the rate of a precision."""
    return 1e3 * flops / matrix_rates(device, threads)[precision]


def flops(run: Call) -> float:
    """Floating-point operations of the convolutions and matrix products of a call."""
    with FlopCounterMode(display=False) as counter:
        run()
    return float(counter.get_total_flops())


def _rate(device: str, precision: str) -> float:
    side = _SIDES[device]
    left, right = torch.rand(2, side, side, device=device, dtype=getattr(torch, precision))
    product = timed(lambda: left @ right, _REPEATS, device)
    return 2.0 * side**3 / float(product["fastest"] / 1e3)
