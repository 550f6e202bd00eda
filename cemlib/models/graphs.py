"""Trace a network's forward pass and divide its graph at a cut, for `cemlib.models.cutting`.

A cut is possible if everything after it is computed from the one value at the cut. A shortcut
around it would have to be released too.
"""

import inspect
from typing import Any

import torch
from torch import fx, nn


class CutError(ValueError):
    """A network cannot be divided at a cut; the message gives the reason."""


class BypassedError(CutError):
    """A value goes around the cut, and so around every submodule inside it."""


class _Tracer(fx.Tracer):
    """Traces into the submodules around the cut, and leaves all others whole."""

    def __init__(self, cut: str) -> None:
        super().__init__()
        self.cut, self.modes = cut, _modes()

    def create_node(self, *args: Any, **kwargs: Any) -> fx.Node:
        """Add an operation; raise a CutError in a mode that the graph would silently leave out."""
        if _modes() != self.modes:
            raise CutError(
                "cut: the forward computes something under torch.no_grad, torch.enable_grad or"
                " torch.autocast, which a graph does not hold; put that into a submodule of its own"
            )
        return super().create_node(*args, **kwargs)

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:  # noqa: ARG002
        return not self.cut.startswith(f"{module_qualified_name}.")


def trace(module: nn.Module, cut: str, training: bool) -> fx.Graph:
    """Trace the forward pass in training or evaluation mode.

    This changes the modes of the network's modules, and adds constants as attributes.

    Raises:
        CutError: if the forward pass cannot be traced, or takes more than one input.
    """
    for each in module.modules():
        each.training = training
    try:
        graph: fx.Graph = _Tracer(cut).trace(module, _defaults(module))
    except CutError:
        raise
    except Exception as error:  # the network's own code may raise anything
        kind, reason = type(module).__name__, " ".join(str(error).split())
        raise CutError(
            f"cut: the forward of {kind} cannot be traced ({reason}); a plain forward without"
            " decisions that depend on values or sizes can be"
        ) from error
    _check_in_place(graph, module)
    return graph


def divided(graph: fx.Graph, cut: str) -> tuple[fx.Graph, fx.Graph]:
    """Divide a graph after `cut`.

    Raises:
        CutError: if the cut is not called once or does not depend on the images, what follows
            depends on anything else, or nothing follows.
    """
    at, result = _at(graph, cut), _result(graph)
    before = _upstream(at)
    behind = _upstream(result, end=at)
    if result is at:
        raise CutError(f"cut: nothing comes after {cut!r}; the server would have nothing to do")
    if at not in behind:
        raise CutError(f"cut: the result does not depend on {cut!r}")
    images = next(node for node in graph.nodes if node.op == "placeholder")
    if images not in before:
        raise CutError(f"cut: {cut!r} does not depend on the images")
    _check_bottleneck(cut, at, before, behind)
    return _part(graph, before, at), _part(graph, behind - {at}, result, at)


def _modes() -> tuple[bool, ...]:
    autocast = (torch.is_autocast_enabled(device) for device in ("cpu", "cuda"))
    return torch.is_grad_enabled(), *autocast


def _defaults(module: nn.Module) -> dict[str, Any]:
    """Return the default values of all arguments but the first."""
    first, *others = inspect.signature(module.forward).parameters.values()
    missing = [each.name for each in others if each.default is each.empty]
    if missing or first.kind in (first.VAR_POSITIONAL, first.VAR_KEYWORD):
        names = ", ".join([first.name, *missing])
        raise CutError(
            f"cut: the forward of {type(module).__name__} takes {names}; only one batch of images"
            " can be handed to it: give the others default values, or wrap the network in a module"
            " that takes images alone"
        )
    return {each.name: each.default for each in others}


def _at(graph: fx.Graph, cut: str) -> fx.Node:
    calls: list[fx.Node] = [n for n in graph.nodes if n.op == "call_module" and n.target == cut]
    if len(calls) != 1:
        times = f"{len(calls)} times" if calls else "never, or under another name"
        raise CutError(f"cut: the forward pass calls {cut!r} {times}; it must do so once")
    return calls[0]


def _result(graph: fx.Graph) -> fx.Node:
    (result,) = next(node for node in graph.nodes if node.op == "output").args
    if isinstance(result, fx.Node):
        return result
    kind = type(result).__name__
    raise CutError(f"cut: the forward returns a {kind} of values; it must return logits alone")


def _upstream(node: fx.Node, end: fx.Node | None = None) -> set[fx.Node]:
    """Return a node and all nodes that it is computed from, back to `end`."""
    seen, waiting = set[fx.Node](), [node]
    while waiting:
        each = waiting.pop()
        if each not in seen:
            seen.add(each)
            waiting += [] if each is end else each.all_input_nodes
    return seen


def _check_bottleneck(cut: str, at: fx.Node, before: set[fx.Node], behind: set[fx.Node]) -> None:
    around = [
        (value, node)
        for node in sorted(behind - before)
        for value in node.all_input_nodes
        if value in before and value is not at and value.op != "get_attr"
    ]
    if around:
        value, node = around[0]
        raise BypassedError(
            f"cut: {cut!r} is no bottleneck: {_named(value)} goes around it into {_named(node)}"
        )


def _named(node: fx.Node) -> str:
    match node.op:
        case "placeholder":
            return "the input"
        case "call_module":
            return repr(node.target)
    sources = " and ".join(_named(each) for each in node.all_input_nodes)
    return f"{getattr(node.target, '__name__', node.target)} of {sources}"


def _part(
    graph: fx.Graph, kept: set[fx.Node], result: fx.Node, start: fx.Node | None = None
) -> fx.Graph:
    """Copy some nodes in their order, with the network's input or `start` as the placeholder."""
    part = fx.Graph()
    copies = {start: part.placeholder("features")} if start is not None else {}
    for node in graph.nodes:
        if node in kept:
            copies[node] = part.node_copy(node, copies.__getitem__)
    part.output(copies[result])
    return part


def _check_in_place(graph: fx.Graph, module: nn.Module) -> None:
    """Raise a CutError for a call whose only effect is in place, which a graph does not show."""
    kept = _upstream(_result(graph))
    for node in graph.nodes:
        if node not in kept and _changes_in_place(node, module) and _changed(node, kept):
            raise CutError(
                f"cut: the forward ignores the result of {_named(node)}, which works in place, so"
                " a graph would lose it; write x = ... before it"
            )


def _changes_in_place(node: fx.Node, module: nn.Module) -> bool:
    if node.op == "call_module":
        return bool(getattr(module.get_submodule(str(node.target)), "inplace", False))
    if node.op not in ("call_method", "call_function"):
        return False
    name = getattr(node.target, "__name__", str(node.target))
    is_operator = getattr(node.target, "__module__", "") == "_operator"  # such as and_
    in_place = name.endswith("_") and not is_operator
    return in_place or bool(node.kwargs.get("inplace")) or "out" in node.kwargs


def _changed(node: fx.Node, kept: set[fx.Node]) -> bool:
    """Return whether a value that is kept may share memory with what a node changes in place."""
    value = node.kwargs.get("out", node.args[0] if node.args else None)
    while isinstance(value, fx.Node) and value not in kept and value.op != "call_module":
        value = value.args[0] if value.args else None
    return value in kept
