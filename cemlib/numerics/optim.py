"""SGD and Adam by torch's own fused update functions.

The first `torch.optim` object would import torch's compiler, which takes two seconds, a fifth of a
short job.
"""

import math
from collections.abc import Iterable, Mapping
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.optim.adam import adam
from torch.optim.sgd import sgd

State = dict[str, Tensor]
Tensors = list[Tensor]
Rate = float | Tensor  # a tensor on the parameters' device can change between replays


def one_cycle(done: float, peak: float, warm_up: float) -> float:
    """Return a learning rate that rises linearly to its peak, then falls to 0 on half a cosine.

    Smith and Topin, "Super-convergence: very fast training of neural networks using large learning
    rates", 2018, with the cosine decay that is common today in place of their linear one. ``done``
    in [0, 1] and ``warm_up`` in [0, 1) are shares of all steps.

    >>> [one_cycle(done, 1.0, 0.5) for done in (0.0, 0.25, 0.5, 0.75, 1.0)]
    [0.0, 0.5, 1.0, 0.5, 0.0]
    """
    if done < warm_up:
        return peak * done / warm_up
    return peak * (1 + math.cos(math.pi * (done - warm_up) / (1 - warm_up))) / 2


def scaled_gradient(x: Tensor, factor: Rate) -> Tensor:
    """Return x; the backward pass multiplies its gradient by the value of `factor` at that time."""
    passed = x.view_as(x)
    if passed.requires_grad:
        passed.register_hook(lambda gradient: factor * gradient)  # type: ignore[no-untyped-call]
    return passed


class Optimiser:
    """Updates parameters in place, except those without a gradient.

    `weight_decay` is the weight of an L2 term, which is added to the gradient.
    """

    slots: ClassVar[tuple[str, ...]] = ()
    """Names of the state tensors of each parameter, which have its shape."""

    def __init__(self, parameters: Iterable[nn.Parameter], *, weight_decay: float = 0.0) -> None:
        self.parameters = list(parameters)
        self.weight_decay = weight_decay
        self.state: dict[int, State] = {}

    def zero_grad(self) -> None:
        """Remove all gradients."""
        for weights in self.parameters:
            weights.grad = None

    @torch.no_grad()
    def step(self, lr: Rate) -> None:
        """Update every parameter that has a gradient."""
        weights: Tensors = []
        gradients: Tensors = []
        states: list[State] = []
        for index, parameter in enumerate(self.parameters):
            if parameter.grad is not None:
                if index not in self.state:
                    self.state[index] = self._start(parameter)
                weights.append(parameter)
                gradients.append(_in_order_of(parameter, parameter.grad))
                states.append(self.state[index])
        if weights:
            self._update(weights, gradients, states, lr)

    def state_dict(self) -> State:
        """Return the state tensors by '<index of the parameter>/<name>'."""
        return {f"{i}/{name}": t for i, kept in self.state.items() for name, t in kept.items()}

    def load_state_dict(self, tensors: Mapping[str, Tensor]) -> None:
        """Load a result of `state_dict`; parameters without state start anew.

        Raises:
            RuntimeError: if a tensor does not fit these parameters.
        """
        self.state = {}
        for key, tensor in tensors.items():
            index, name = key.split("/")
            expected = self._start(self.parameters[int(index)]).get(name)
            if expected is None or expected.shape != tensor.shape:
                raise RuntimeError(f"optimiser: {key} of shape {tuple(tensor.shape)} does not fit")
            self.state.setdefault(int(index), {})[name] = expected.copy_(tensor)

    def _start(self, weights: Tensor) -> State:
        return {name: torch.zeros_like(weights) for name in self.slots}

    def _update(self, weights: Tensors, gradients: Tensors, states: list[State], lr: Rate) -> None:
        raise NotImplementedError


def _in_order_of(weights: Tensor, gradient: Tensor) -> Tensor:
    """Return a gradient in its weights' layout, as fused kernels assume; autograd's may differ."""
    if gradient.stride() == weights.stride():
        return gradient
    return torch.empty_like(weights).copy_(gradient)


class SGD(Optimiser):
    """Stochastic gradient descent with momentum (Sutskever et al., ICML 2013, torch's form)."""

    slots = ("momentum",)

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        *,
        momentum: float,
        weight_decay: float = 0.0,
        nesterov: bool = False,
    ) -> None:
        super().__init__(parameters, weight_decay=weight_decay)
        self.momentum, self.nesterov = momentum, nesterov

    def _update(self, weights: Tensors, gradients: Tensors, states: list[State], lr: Rate) -> None:
        sgd(
            weights,
            gradients,
            [kept["momentum"] for kept in states],
            weight_decay=self.weight_decay,
            momentum=self.momentum,
            lr=lr,
            dampening=0.0,
            nesterov=self.nesterov,
            maximize=False,
            fused=True,
        )


class Adam(Optimiser):
    """Adam with an L2 term and torch's defaults (Kingma and Ba, ICLR 2015, algorithm 1)."""

    slots = ("mean", "square")

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        *,
        weight_decay: float = 0.0,
        betas: tuple[float, float] = (0.9, 0.999),
    ) -> None:
        super().__init__(parameters, weight_decay=weight_decay)
        self.betas = betas

    def _start(self, weights: Tensor) -> State:
        step = torch.zeros((), dtype=torch.float32, device=weights.device)
        return super()._start(weights) | {"step": step}

    def _update(self, weights: Tensors, gradients: Tensors, states: list[State], lr: Rate) -> None:
        adam(
            weights,
            gradients,
            [kept["mean"] for kept in states],
            [kept["square"] for kept in states],
            [],
            [kept["step"] for kept in states],
            amsgrad=False,
            beta1=self.betas[0],
            beta2=self.betas[1],
            lr=lr,
            weight_decay=self.weight_decay,
            eps=1e-8,
            maximize=False,
            fused=True,
        )
