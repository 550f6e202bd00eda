"""The moments that a channel states against those of many releases."""

from typing import Any

import pytest
import torch

from cemlib.defences.channels import build
from cemlib.seeds import generator

EVERY: list[tuple[str, dict[str, Any]]] = [
    ("noise", {}),
    ("dropout", {"rate": 0.3}),
    ("topk", {"keep": 0.5}),
    ("local_dp", {"epsilon": 4.0, "clip": 1.5, "mechanism": "laplace"}),
    ("local_dp", {"epsilon": 4.0, "clip": 1.5, "mechanism": "gaussian"}),
]
NAMES = [f"{name} {options.get('mechanism', '')}".strip() for name, options in EVERY]
SAMPLES, DIM, RELEASES = 5, 6, 20_000


@pytest.mark.parametrize("queries", [1, 4])
@pytest.mark.parametrize("noise_std", [0.0, 0.2])
@pytest.mark.parametrize(("name", "options"), EVERY, ids=NAMES)
def test_moments_are_those_of_many_releases(
    name: str, options: dict[str, Any], noise_std: float, queries: int
) -> None:
    """Means sample by sample; variances about them, averaged over the samples."""
    channel = build(name, noise_std=noise_std, **options)
    z = torch.randn(SAMPLES, DIM, generator=generator(0, "z"))
    mean, variance = channel.moments(z, queries)
    assert mean.shape == (SAMPLES, DIM)
    assert variance.shape == (DIM,)
    many = z.repeat(RELEASES, 1)
    released = channel(many, generator(0, "noise"), queries=queries).double()
    released = released.view(RELEASES, SAMPLES, DIM)
    spread = released.var(0)
    assert ((released.mean(0) - mean).abs() <= 5 * (spread / RELEASES).sqrt() + 1e-6).all()
    fourth = (released - released.mean(0)).pow(4).mean(0)
    error = (fourth - spread**2).clamp(min=0).mean(0) / (RELEASES * SAMPLES)
    assert ((spread.mean(0) - variance).abs() <= 5 * error.sqrt() + 1e-6).all()


def test_one_release_is_the_default() -> None:
    channel, z = build("noise", noise_std=0.5), torch.rand(3, 4)
    mean, variance = channel.moments(z)
    assert torch.equal(mean, z)
    assert variance.tolist() == [0.25] * 4
