"""Replay training steps as CUDA graphs.

Starting the few hundred kernels of a small network's step one by one from Python takes longer than
they run. A CUDA graph starts them all at once. The step must read no tensor on the host, update
tensors in place, and take its data from tensors that keep their memory. A replay runs no Python
code: whatever changes there between steps must be part of the key.
"""

from collections.abc import Callable, Hashable, Iterable
from functools import cache

import torch
from torch import Tensor

WARM_UP = 3  # calls before a capture, in which libraries and optimisers allocate their memory

Step = Callable[[], None]


class Replay:
    """Calls a step repeatedly, on a GPU as a captured graph, and on a CPU as it is.

    `generators` returns the step's random generators, besides the device's own.
    """

    def __init__(
        self, device: torch.device, generators: Callable[[], Iterable[torch.Generator]]
    ) -> None:
        self.device, self.generators = device, generators
        self.captures = device.type == "cuda"
        self._shared: dict[str, Tensor] = {}
        self._key: Hashable = None
        self._calls = 0
        self._graph: torch.cuda.CUDAGraph | None = None

    def __call__(self, step: Step, key: Hashable) -> bool:
        """Do the step once, and return whether its Python code ran.

        All calls with one key must run the same kernels.
        """
        if not self.captures:
            step()
            return True
        if key != self._key:
            self._key, self._calls, self._graph = key, 0, None
        if self._graph is not None:
            self._graph.replay()
            return False
        self._calls += 1
        if self._calls <= WARM_UP:
            self._beside(step)
        else:
            self._graph = self._captured(step)
            self._graph.replay()  # a capture records the step without running it
        return True

    def shared(self, name: str, number: float) -> float | Tensor:
        """Return a number that changes between steps; for a graph, the tensor of that name."""
        if not self.captures:
            return number
        if name not in self._shared:
            self._shared[name] = torch.zeros((), device=self.device)
        return self._shared[name].fill_(number)

    def _beside(self, step: Step) -> None:
        """Call the step on a side stream, as for a capture."""
        current, side = torch.cuda.current_stream(self.device), _side_stream(self.device)
        side.wait_stream(current)
        with torch.cuda.stream(side):
            step()
        current.wait_stream(side)

    def _captured(self, step: Step) -> torch.cuda.CUDAGraph:
        graph = torch.cuda.CUDAGraph()
        for generator in self.generators():
            graph.register_generator_state(generator)
        with torch.cuda.graph(graph, stream=_side_stream(self.device)):
            step()
        return graph


@cache
def _side_stream(device: torch.device) -> torch.cuda.Stream:
    """Return the one stream of warm-up and capture, because libraries keep memory per stream."""
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
