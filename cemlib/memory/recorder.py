"""Every tensor that code makes and frees, as blocks of a simulated heap.

On the meta device an operation computes shapes and nothing else, so that a training step of any
network costs neither time nor memory and still makes the tensors that it would make: activations
kept for the backward pass, gradients, and what lives between two operations.

Between the activations lie the small objects of the graph that the backward pass follows. They stay
until the graph goes, and keep the holes between them apart; a small block stands for each.

What it does not see is what an operation needs inside itself.
"""

import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from cemlib.memory.heap import Heap

META = torch.device("meta")


class Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Within this context all tensors made on the meta device, or on the CPU, take from `heap`."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.heap = Heap()
        self._held: dict[int, int] = {}  # address of each storage's block
        self._graph: list[int] = []  # addresses of what stands for the graph

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Carry an operation out and note what it made."""
        made = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(made):
            if isinstance(tensor, Tensor):
                self._note(tensor)
        return made

    def _note(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key not in self._held:
            if torch.is_grad_enabled():
                self._held[key], behind = self.heap.take_apart(storage.nbytes())
                self._graph.append(behind)
            else:
                self._held[key] = self.heap.take(storage.nbytes())
            weakref.finalize(storage, self._drop, key)

    def forget_graph(self) -> None:
        """At the end of a step, when the loss and all that leads to it is gone."""
        while self._graph:
            self.heap.give_back(self._graph.pop())

    def _drop(self, key: int) -> None:
        self.heap.give_back(self._held.pop(key))


def empty(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """A tensor without data."""
    return torch.empty(shape, dtype=dtype, device=META)
