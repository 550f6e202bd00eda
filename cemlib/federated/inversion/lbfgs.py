"""Minimise many independent problems at once by L-BFGS, each at its own pace.

Sources: Liu and Nocedal, "On the limited memory BFGS method for large scale optimization",
Mathematical Programming 45, 1989 (two-loop recursion); Armijo, Pacific Journal of Mathematics 16,
1966 (sufficient decrease). The steps and the line search of torch's own optimiser would couple the
problems. Here each evaluation is a trial step of every problem: one whose value falls enough
continues in a new direction, any other tries a shorter step next.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

Objective = Callable[[Tensor], Tensor]
"""Differentiable function from P points (P, ...) to values (P,); row i depends on row i alone."""

_DECREASE = 1e-4  # share of the decrease predicted by the slope that a step must reach
_SHORTEST = 1e-6  # step length below which a direction is given up
_CURVATURE = 1e-8  # smallest cosine between a step and its change of the gradient
_MEMORY = 20  # pairs of steps and changes of the gradient that are kept


class Minimum(NamedTuple):
    """The points at which P problems ended."""

    points: Tensor  # the points (P, ...)
    values: Tensor  # the values (P,) there
    curve: Tensor  # the value of the current point at each evaluation, (P, evaluations)


def minimise(objective: Objective, start: Tensor, evaluations: int) -> Minimum:
    """Minimise P functions from `start` (P, ...), evaluated there and `evaluations` times after."""
    search = _Search(objective, start.detach())
    curve = [search.value]
    for _ in range(evaluations):
        search.try_step()
        curve.append(search.value)
    return Minimum(search.point.view_as(start), search.value, torch.stack(curve, dim=1))


class _Search:
    """The current point of every problem; the first axis of all tensors is the problem."""

    def __init__(self, objective: Objective, start: Tensor) -> None:
        self._objective, self._shape = objective, start.shape
        self.point = start.flatten(1)
        self.value, self._gradient = self._evaluated(self.point)
        problems, size = self.point.shape
        self._steps = start.new_zeros(problems, _MEMORY, size)
        self._changes = start.new_zeros(problems, _MEMORY, size)
        self._inverse = start.new_zeros(problems, _MEMORY)  # 1 / step.change; 0 = no pair
        self._direction = -self._gradient
        self._length = self._first_length()

    def try_step(self) -> None:
        """Evaluate one trial step of each problem, and accept those whose values fall enough."""
        trial = self.point + self._length[:, None] * self._direction
        value, gradient = self._evaluated(trial)
        slope = _dot(self._gradient, self._direction)
        bound = self.value + _DECREASE * self._length * slope
        good = (value <= bound) & gradient.isfinite().all(1)
        self._remember(good, trial - self.point, gradient - self._gradient)
        self._shorten(~good, value, slope)
        self.point = chosen(good, trial, self.point)
        self._gradient = chosen(good, gradient, self._gradient)
        self.value = torch.where(good, value, self.value)
        self._turn(good)

    def _evaluated(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """Return values (P,) and gradients (P, D) at points (P, D)."""
        points = points.detach().requires_grad_()
        values = self._objective(points.view(self._shape))
        (slope,) = torch.autograd.grad(values.sum(), points)
        return values.detach(), slope

    def _remember(self, good: Tensor, step: Tensor, change: Tensor) -> None:
        curvature = _dot(step, change)
        enough = curvature > _CURVATURE * step.norm(dim=1) * change.norm(dim=1)
        new = good & enough
        self._steps = _pushed(self._steps, step, new)
        self._changes = _pushed(self._changes, change, new)
        self._inverse = _pushed(self._inverse, 1 / curvature, new)

    def _shorten(self, bad: Tensor, value: Tensor, slope: Tensor) -> None:
        """Shorten a step to the minimum of the interpolating parabola within bounds, or to half."""
        length = self._length
        excess = value - self.value - length * slope
        best = -slope * length.square() / (2 * excess)
        best = torch.where(best.isfinite(), best, length / 2)
        shorter = torch.maximum(torch.minimum(best, length / 2), length / 10)
        self._length = torch.where(bad, shorter, length)

    def _turn(self, good: Tensor) -> None:
        """Choose a new direction after a step, or steepest descent if all steps failed."""
        lost = ~good & (self._length < _SHORTEST)
        self._inverse = torch.where(lost[:, None], 0, self._inverse)
        direction = -self._scaled(self._gradient)
        uphill = _dot(direction, self._gradient) >= 0
        direction = chosen(uphill | lost, -self._gradient, direction)
        fresh = (self._inverse[:, -1] == 0) | uphill
        length = torch.where(fresh, self._first_length(), 1)
        self._direction = chosen(good | lost, direction, self._direction)
        self._length = torch.where(good | lost, length, self._length)

    def _scaled(self, gradient: Tensor) -> Tensor:
        """Return the gradient times the approximate inverse Hessian, by the two-loop recursion."""
        weights, result = [], gradient
        for i in reversed(range(self._inverse.shape[1])):
            weight = self._inverse[:, i] * _dot(self._steps[:, i], result)
            result = result - weight[:, None] * self._changes[:, i]
            weights.append(weight)
        last = self._inverse[:, -1] * self._changes[:, -1].square().sum(1)
        result = result / torch.where(last > 0, last, 1)[:, None]
        for i, weight in enumerate(reversed(weights)):
            back = self._inverse[:, i] * _dot(self._changes[:, i], result)
            result = result + (weight - back)[:, None] * self._steps[:, i]
        return result

    def _first_length(self) -> Tensor:
        return 1 / self._gradient.abs().sum(1).clamp(min=1)


def chosen(where: Tensor, new: Tensor, old: Tensor) -> Tensor:
    """Return the rows of `new` (P, ...) where `where` (P,) is true, and elsewhere of `old`."""
    return torch.where(where.view(-1, *[1] * (new.ndim - 1)), new, old)


def _pushed(kept: Tensor, new: Tensor, where: Tensor) -> Tensor:
    """Append `new` (P, ...) to `kept` (P, m, ...) and drop the first, if `where` (P,) is true."""
    return chosen(where, torch.cat([kept[:, 1:], new[:, None]], dim=1), kept)


def _dot(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sum(1)
