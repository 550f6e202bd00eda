"""The optimisers against torch.optim's own classes."""

from collections.abc import Iterable
from functools import partial
from typing import Any, Literal

import pytest
import torch
from torch import nn

from cemlib.numerics.optim import SGD, Adam, one_cycle

Parameters = Iterable[nn.Parameter]
KINDS: dict[str, tuple[Any, Any, dict[str, Any]]] = {  # ours, torch's, and the options of both
    "sgd": (SGD, torch.optim.SGD, {"momentum": 0.9, "weight_decay": 1e-2}),
    "nesterov": (SGD, torch.optim.SGD, {"momentum": 0.9, "weight_decay": 1e-2, "nesterov": True}),
    "adam": (Adam, torch.optim.Adam, {"weight_decay": 1e-2}),
    "adam of a GAN": (Adam, torch.optim.Adam, {"betas": (0.5, 0.9)}),
}
OURS = {kind: partial(ours, **options) for kind, (ours, _, options) in KINDS.items()}
THEIRS = {kind: partial(theirs, lr=1.0, **options) for kind, (_, theirs, options) in KINDS.items()}


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3), nn.Linear(3, 3)).double()


def gradients(model: nn.Sequential, step: int) -> None:
    """Gradients of a batch; the last layer takes part from the third step on."""
    x = torch.rand(7, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(step))
    model.zero_grad()
    out = model(x) if step >= 3 else model[:3](x)
    out.square().mean().backward()


@pytest.mark.parametrize("kind", OURS)
def test_updates_equal_those_of_torch(kind: str) -> None:
    mine, other = network(), network()
    ours, theirs = OURS[kind](mine.parameters()), THEIRS[kind](other.parameters())
    for step in range(8):
        lr = 0.1 / (1 + step)
        gradients(mine, step)
        gradients(other, step)
        ours.step(lr)
        for group in theirs.param_groups:
            group["lr"] = lr
        theirs.step()
        for a, b in zip(mine.parameters(), other.parameters(), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("kind", OURS)
def test_a_gradient_may_lie_in_memory_in_another_order(kind: str) -> None:
    """As `torch.autograd.grad` may return it; fused kernels take elements as they lie."""
    start = torch.rand(3, 2, generator=torch.Generator().manual_seed(0))
    mine, other = (nn.Parameter(start.clone()) for _ in range(2))
    mine.grad, other.grad = (start.T.contiguous().T - 0.5), start - 0.5
    assert mine.grad.stride() != mine.stride()
    OURS[kind]([mine]).step(0.1)
    OURS[kind]([other]).step(0.1)
    assert torch.equal(mine, other)


@pytest.mark.parametrize("kind", OURS)
def test_without_a_gradient_nothing_moves(kind: str) -> None:
    model = network()
    optimiser = OURS[kind](model.parameters())
    gradients(model, 0)
    optimiser.zero_grad()
    before = [weights.clone() for weights in model.parameters()]
    optimiser.step(0.1)
    assert all(map(torch.equal, before, model.parameters()))
    assert optimiser.state_dict() == {}


@pytest.mark.parametrize("kind", OURS)
def test_a_state_that_does_not_fit_is_refused(kind: str) -> None:
    model = network()
    with pytest.raises(RuntimeError, match="0/velocity"):
        OURS[kind](model.parameters()).load_state_dict({"0/velocity": torch.zeros(5, 6)})
    name = OURS[kind]([]).slots[0]
    with pytest.raises(RuntimeError, match=rf"0/{name} of shape \(2,\)"):
        OURS[kind](model.parameters()).load_state_dict({f"0/{name}": torch.zeros(2)})


@pytest.mark.parametrize(("shape", "phase"), [("linear", range(26)), ("cos", range(25, 101))])
def test_one_cycle_is_torchs(shape: Literal["linear", "cos"], phase: range) -> None:
    """Of 101 steps 25 rise, linearly, and 75 fall, on a cosine; torch gives both one shape."""
    optimiser = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser,
        max_lr=0.3,
        total_steps=101,
        pct_start=26 / 101,
        anneal_strategy=shape,
        div_factor=1e12,
        final_div_factor=1e12,
        cycle_momentum=False,
    )
    theirs = []
    for step in range(101):
        theirs.append(schedule.get_last_lr()[0])
        optimiser.step()
        if step < 100:
            schedule.step()
    for step in phase:
        assert one_cycle(step / 100, 0.3, 0.25) == pytest.approx(theirs[step], rel=1e-9, abs=1e-9)


def test_one_cycle_without_warm_up_starts_at_its_peak() -> None:
    rates = [one_cycle(done, 0.3, 0.0) for done in (0.0, 0.5, 1.0)]
    assert rates == pytest.approx([0.3, 0.15, 0.0])
