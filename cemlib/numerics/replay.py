"""Steps that are the same kernels on the same memory: on a GPU they are replayed as one graph.

A step of a small network is a few hundred kernels of some microseconds each, and starting them one
by one from Python takes longer than they run. A CUDA graph starts them all at once. The step must
not read a tensor on the host, must keep what it changes where it is (in-place updates), and takes
its data from tensors that keep their place. What differs from step to step in Python is not seen by
a replay: it belongs into the key, or the step must be called as it is.
"""

from collections.abc import Callable, Hashable, Iterable

import torch
from torch import Tensor

WARM_UP = (
    3  # calls before a capture: libraries choose their algorithms, optimisers make their state
)

Step = Callable[[], None]


class Replay:
    """Calls a step again and again, on a GPU as a captured graph.

    Args:
        device: where the step computes; on a CPU it is called as it is.
        generators: the random generators that the step draws from, besides the device's own.
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
        self._side: torch.cuda.Stream | None = None

    def __call__(self, step: Step, key: Hashable) -> bool:
        """Do the step once.

        Args:
            step: what is done; it does the same in every call with the same key.
            key: all that decides what the step does, but for tensors and generators.

        Returns:
            Whether its Python code ran; a replay runs the kernels alone.
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
            self._graph.replay()  # a capture records the step and does not carry it out
        return True

    def shared(self, name: str, number: float) -> float | Tensor:
        """Return a number as a captured step reads it anew: a tensor; a Python number would stay.

        Args:
            name: which of the step's numbers it is.
            number: its value from now on.
        """
        if not self.captures:
            return number
        if name not in self._shared:
            self._shared[name] = torch.zeros((), device=self.device)
        return self._shared[name].fill_(number)

    def _beside(self, step: Step) -> None:
        """Call the step on a stream of its own, as it will be captured."""
        # One for all calls: memory is kept ready for each stream apart.
        self._side = self._side or torch.cuda.Stream()  # type: ignore[no-untyped-call]
        current, side = torch.cuda.current_stream(), self._side
        side.wait_stream(current)
        with torch.cuda.stream(side):
            step()
        current.wait_stream(side)

    def _captured(self, step: Step) -> torch.cuda.CUDAGraph:
        graph = torch.cuda.CUDAGraph()
        for generator in self.generators():
            graph.register_generator_state(generator)
        with torch.cuda.graph(graph):
            step()
        return graph
