"""Cut any network in two, after one of its own submodules.

The forward pass is traced symbolically (Reed, DeVito, He, Ussery and Ansel, "torch.fx: practical
program capture and transformation for deep learning in Python", MLSys 2022), and its graph is
divided at the value that the named submodule returns: module(x) = head(encoder(x)), with the same
operations in the same order, so bit for bit for images that are contiguous in memory.

Only the forward passes of the network and of the submodules around the cut are traced; all others
need not be traceable. The halves hold the network's own submodules under their own names, not
copies.

It assumes that the traced forward passes do the same for every input: a decision by a value or a
size is made once in training and once in evaluation mode. They must change no buffer, and use
augmented assignments, such as h += 1, only where no other name stands for the old value: these are
traced as h = h + 1.
"""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches

import torch
from torch import Tensor, fx, nn

from cemlib.models.graphs import BypassedError, CutError, divided, trace
from cemlib.models.layers import modes_kept


class Part(nn.Module):
    """One half of a network: some of its submodules, under their own names, and their graphs.

    The input is copied, so that in-place operations change nothing outside, and `view` finds the
    usual memory order. The graphs are those of the training mode (True) and of evaluation (False).
    """

    def __init__(self, source: nn.Module, graphs: Mapping[bool, fx.Graph]) -> None:
        super().__init__()
        self._graphs = dict(graphs)
        self.training = source.training
        nodes = [node for graph in graphs.values() for node in graph.nodes]
        for kind in ("call_module", "get_attr"):  # modules first, with their weights
            for target in dict.fromkeys(str(node.target) for node in nodes if node.op == kind):
                _share(source, self, target)

    def forward(self, x: Tensor) -> Tensor:
        """Return features of images, or logits of features, as the network computes them."""
        apart = x.clone(memory_format=torch.contiguous_format)
        interpreter = fx.Interpreter(self, graph=self._graphs[self.training])
        interpreter.extra_traceback = False  # errors keep the messages of the network's own layers
        result: Tensor = interpreter.run(apart)
        return result


def halves(module: nn.Module, cut: str) -> tuple[Part, Part]:
    """Divide a network after the submodule with a dotted name; the first half includes it.

    Submodules that the forward pass never calls are in neither half.

    Raises:
        cemlib.models.graphs.CutError: if the network has no such submodule, or cannot be traced or
            divided there; the message gives the reason and the possible cuts.
    """
    names = [name for name, _ in module.named_modules(remove_duplicate=False) if name]
    if cut not in names:
        kind, close = type(module).__name__, get_close_matches(cut, names, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise CutError(f"cut: {kind} has no submodule {cut!r}{hint}; {others(module)}")
    try:
        return _halves(module, cut)
    except CutError as error:
        raise CutError(f"{error}; {others(module)}") from error


def possible_cuts(module: nn.Module) -> list[str]:
    """Return the names of the submodules after which a network can be divided, in its order."""
    return list(_cuts(module, module, ""))


def _cuts(module: nn.Module, inside: nn.Module, prefix: str) -> Iterator[str]:
    for name, child in inside.named_children():
        cut = f"{prefix}{name}"
        try:
            _halves(module, cut)
        except BypassedError:
            continue
        except CutError:
            pass  # a submodule inside it may still be possible
        else:
            yield cut
        yield from _cuts(module, child, f"{cut}.")


def _halves(module: nn.Module, cut: str) -> tuple[Part, Part]:
    traced = nn.Module.__new__(type(module))  # a shallow copy, which tracing may change
    vars(traced).update(vars(module) | {"_buffers": dict(vars(module)["_buffers"])})
    with modes_kept(traced):  # tracing sets them
        pairs = {mode: divided(trace(traced, cut, mode), cut) for mode in (True, False)}
    encoder, head = (Part(traced, {m: pairs[m][i] for m in pairs}) for i in (0, 1))
    _check_apart(module, encoder, head)
    return encoder, head


def others(module: nn.Module) -> str:
    """Return the possible cuts for an error message, with advice if there are none."""
    none = "none; change its forward, or give both halves yourself: SplitModel(encoder, head)"
    return f"possible cuts: {', '.join(possible_cuts(module)) or none}"


def _check_apart(module: nn.Module, encoder: Part, head: Part) -> None:
    ours, theirs = ({id(tensor) for tensor in _tensors(part).values()} for part in (encoder, head))
    both = [name for name, tensor in _tensors(module).items() if id(tensor) in ours & theirs]
    if both:
        raise CutError(f"cut: {', '.join(both)} would be used on both sides of it")


def _tensors(module: nn.Module) -> dict[str, Tensor]:
    return dict(module.named_parameters()) | dict(module.named_buffers())


def _share(source: nn.Module, part: Part, target: str) -> None:
    """Add a submodule, parameter or buffer of the network to a half under the same name."""
    *path, name = target.split(".")
    owner: nn.Module = part
    for step in path:
        source = getattr(source, step)
        if not hasattr(owner, step):
            owner.add_module(step, nn.Module())
            getattr(owner, step).training = source.training
        owner = getattr(owner, step)
    value = getattr(source, name)
    if hasattr(owner, name):
        return
    if isinstance(value, nn.Module):
        owner.add_module(name, value)
    elif isinstance(value, nn.Parameter):
        owner.register_parameter(name, value)
    else:
        owner.register_buffer(name, value, persistent=name in source.state_dict())
