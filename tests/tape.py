"""A stand-in for a CUDA graph on the CPU: the kernels of a step on tape, run again without Python.

Like a graph it calls the same kernels on the same memory, and nothing else: a result is copied to
where the first run put it. What a step does in Python, in new memory or by reading a tensor on the
host is therefore lost, or refused, here as there.
"""

from collections.abc import Callable, Hashable, Iterable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from cemlib.numerics.replay import Replay, Step

# What needs a number or a size on the host, and tensors made of Python's numbers (`lift_fresh`).
WAITING = {"_local_scalar_dense", "bincount", "equal", "lift_fresh", "masked_select", "nonzero"}
# The last two read whether they succeeded; linalg_cholesky_ex does not.
WAITING |= {"_unique2", "linalg_cholesky", "linalg_inv"}


class Tape(TorchDispatchMode):
    """Records every kernel call of what runs inside, forwards and backwards."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Any, tuple[Any, ...], dict[str, Any], list[Any]]] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        name = func.overloadpacket.__name__
        masked = [a for a in tree_leaves(args[1:]) if name.startswith("index") and is_mask(a)]
        if name in WAITING or masked:
            raise AssertionError(f"{name} waits for the device: {[type(a) for a in args]}")
        out = func(*args, **(kwargs or {}))
        self.calls.append((func, args, kwargs or {}, tree_leaves(out)))
        return out

    @torch.no_grad()
    def replay(self) -> None:
        for func, args, kwargs, places in self.calls:
            for place, value in zip(places, tree_leaves(func(*args, **kwargs)), strict=True):
                if isinstance(place, torch.Tensor) and place is not value:
                    place.copy_(value)


def is_mask(argument: Any) -> bool:
    return isinstance(argument, torch.Tensor) and argument.dtype == torch.bool


class Called(Replay):
    """Calls every step, also on a GPU."""

    def __init__(self, *where: Any) -> None:
        super().__init__(*where)
        self.captures = False


class TapeReplay(Replay):
    """`Replay` as on a GPU, with tapes for graphs."""

    count = 0
    """Steps of all replays that ran without their Python code."""

    def __init__(
        self, device: torch.device, generators: Callable[[], Iterable[torch.Generator]]
    ) -> None:
        super().__init__(device, generators)
        self.captures = True
        self.key: Hashable = "none"
        self.tape: Tape | None = None

    def __call__(self, step: Step, key: Hashable) -> bool:
        if key != self.key:
            self.key, self.tape = key, None
            step()
            return True
        if self.tape is None:
            self.tape = Tape()
            with self.tape:
                step()
            return True
        self.tape.replay()
        TapeReplay.count += 1
        return False
