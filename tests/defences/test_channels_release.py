"""Releases of every channel: moments by closed forms, fresh, differentiable; pruning by a loop."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from cemlib.defences.channels import Channel, build
from cemlib.numerics.seeds import generator

EVERY: list[tuple[str, dict[str, Any]]] = [
    ("noise", {}),
    ("dropout", {"rate": 0.3}),
    ("topk", {"keep": 0.5}),
    ("local_dp", {"epsilon": 4.0, "clip": 1.5, "mechanism": "laplace"}),
    ("local_dp", {"epsilon": 4.0, "clip": 1.5, "mechanism": "gaussian"}),
]
NAMES = [f"{name} {options.get('mechanism', '')}".strip() for name, options in EVERY]
Z = torch.tensor([0.9, -0.7, 0.1, 0.0, -0.4, 0.3])  # L1 norm 2.4, L2 norm 1.249
RELEASES = 20_000

every = pytest.mark.parametrize(("name", "options"), EVERY, ids=NAMES)


def closed_form(channel: Channel, name: str, options: dict[str, Any]) -> tuple[Tensor, Tensor]:
    """Mean and variance of every feature of one release of Z."""
    noise = channel.noise_std**2
    if name == "dropout":
        return 0.7 * Z, 0.7 * 0.3 * Z.square() + noise
    if name == "topk":
        return torch.tensor([0.9, -0.7, 0, 0, -0.4, 0]), torch.full((6,), noise)
    if options.get("mechanism") == "laplace":  # b = 3 / 4
        return Z * 1.5 / 2.4, torch.full((6,), 2 * 0.75**2 + noise)
    if options.get("mechanism") == "gaussian":  # within the L2 norm of 1.5
        return Z, torch.full((6,), channel.std**2)
    return Z, torch.full((6,), noise)


@pytest.mark.parametrize("queries", [1, 4, 16])
@pytest.mark.parametrize("noise_std", [0.0, 0.2])
@every
def test_mean_and_variance_by_closed_forms(
    name: str, options: dict[str, Any], noise_std: float, queries: int
) -> None:
    """Of many releases, and as the channel states them."""
    channel = build(name, noise_std=noise_std, **options)
    released = channel(Z.expand(RELEASES, 6), generator(0, "noise"), queries=queries).double()
    mean, variance = closed_form(channel, name, options)
    variance = variance / queries
    found = released.var(0)
    fourth = (released - released.mean(0)).pow(4).mean(0)
    error = (fourth - found**2).clamp(min=0).sqrt() / math.sqrt(RELEASES)
    assert ((released.mean(0) - mean).abs() <= 5 * (variance / RELEASES).sqrt() + 1e-6).all()
    assert ((found - variance).abs() <= 5 * error + 1e-6).all()
    stated = channel.moments(Z[None], queries)
    torch.testing.assert_close(stated, (mean[None], variance), rtol=1e-5, atol=1e-7)


def test_a_channels_variance_is_averaged_over_the_samples() -> None:
    """A mask varies with the feature; one release is the default."""
    mean, variance = build("dropout", noise_std=0.5, rate=0.3).moments(torch.stack([Z, 2 * Z]))
    torch.testing.assert_close(mean, 0.7 * torch.stack([Z, 2 * Z]))
    torch.testing.assert_close(variance, 0.3 * 0.7 * 2.5 * Z.square() + 0.25)


@every
def test_features_and_samples_are_independent(name: str, options: dict[str, Any]) -> None:
    channel = build(name, noise_std=0.1, **options)
    errors = channel(torch.full((4000, 6), 0.2), generator(0, "noise")).double()
    assert (torch.corrcoef(errors.T) - torch.eye(6)).abs().max() < 5 / math.sqrt(4000)
    pairs = torch.stack([errors[:-1].flatten(), errors[1:].flatten()])
    centred = pairs - errors.mean(0).repeat(3999)
    assert abs(torch.corrcoef(centred)[0, 1]) < 5 / math.sqrt(4000 * 6)


@every
def test_every_call_is_fresh_and_the_same_stream_repeats(
    name: str, options: dict[str, Any]
) -> None:
    channel, z = build(name, noise_std=0.1, **options), torch.rand(3, 8, 2, 2)
    draws = generator(7, "noise", 2)
    first, second = channel(z, draws), channel(z, draws)
    assert not torch.equal(first, second)
    assert torch.equal(first, channel(z, generator(7, "noise", 2)))
    assert not torch.equal(first, channel(z, generator(7, "noise", 3)))


@every
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_shape_and_type_of_the_features_are_kept(
    name: str, options: dict[str, Any], dtype: torch.dtype
) -> None:
    z = torch.rand(3, 8, 2, 2).to(dtype).contiguous(memory_format=torch.channels_last)
    released = build(name, noise_std=0.1, **options)(z, generator(0, "noise"), queries=3)
    assert released.shape == z.shape
    assert released.dtype == dtype
    assert released.isfinite().all()


@every
def test_gradients_of_the_release(name: str, options: dict[str, Any]) -> None:
    channel = build(name, noise_std=0.1, **options)
    z = torch.randn(3, 8, dtype=torch.float64, generator=generator(0, "z"), requires_grad=True)
    assert torch.autograd.gradcheck(lambda z: channel(z, generator(0, "noise"), queries=2), [z])


def test_one_release_has_the_numbers_of_published_results() -> None:
    """They draw one standard normal per feature, in order, from the named stream."""
    features = torch.rand(5, 8, 2, 2, generator=generator(0, "z"))
    noise = torch.randn(5, 8, 2, 2, generator=generator(3, "noise", 4))
    released = build("noise", noise_std=0.025)(features, generator(3, "noise", 4))
    assert torch.equal(released, features + 0.025 * noise)


@pytest.mark.parametrize("name", ["noise", "topk"])
def test_no_noise_draws_nothing(name: str) -> None:
    draws = generator(0, "noise")
    options = {"keep": 1.0} if name == "topk" else {}
    features = torch.rand(3, 4)
    assert torch.equal(build(name, noise_std=0.0, **options)(features, draws, queries=5), features)
    assert torch.equal(draws.get_state(), generator(0, "noise").get_state())


def test_an_unknown_channel_is_named_with_the_nearest() -> None:
    with pytest.raises(ValueError, match=r"'dropuot'.*did you mean 'dropout'\? \(known: noise, "):
        build("dropuot", noise_std=0.1)


def loop(row: np.ndarray, count: int) -> tuple[float, set[int], set[int]]:
    """Magnitude at the border, what is kept for certain, and what ties there."""
    order = np.sort(np.abs(row))[::-1]
    border = order[count - 1]
    above = {i for i, value in enumerate(row) if abs(value) > border}
    return border, above, {i for i, value in enumerate(row) if abs(value) == border}


@pytest.mark.parametrize("keep", [0.01, 0.2, 0.5, 0.9, 1.0])
def test_exactly_k_of_the_largest_stay_with_ties(keep: float) -> None:
    z = torch.randint(-4, 5, (50, 4, 3, 2), generator=generator(0, "z")).float()
    pruned = build("topk", noise_std=0.0, keep=keep).shape(z).flatten(1).numpy()
    count = math.ceil(keep * 24)
    for row, found in zip(z.flatten(1).numpy(), pruned, strict=True):
        border, above, ties = loop(row, count)
        kept = set(np.flatnonzero(found).tolist())
        assert above <= kept <= above | ties
        assert len(kept) == (count if border > 0 else np.count_nonzero(row))
        assert all(found[i] == row[i] for i in kept)


@pytest.mark.parametrize(
    ("keep", "dim", "count"), [(0.2, 512, 103), (0.07, 100, 7), (0.001, 8, 1), (1.0, 8, 8)]
)
def test_the_share_is_rounded_up_without_rounding_errors(keep: float, dim: int, count: int) -> None:
    z = torch.rand(3, dim, generator=generator(0, "z")) + 0.1
    assert ((build("topk", noise_std=0.0, keep=keep).shape(z) != 0).sum(1) == count).all()
