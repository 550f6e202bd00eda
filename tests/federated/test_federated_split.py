"""Which images each client gets."""

import pytest
import torch

from cemlib.data.errors import DataError
from cemlib.federated.setting import dirichlet, iid

LABELS = torch.arange(10).repeat_interleave(60)


@pytest.mark.parametrize("parts", [iid(LABELS, 7, 8, 0), dirichlet(LABELS, 7, 0.5, 8, 0)])
def test_every_image_goes_to_one_client(parts):
    assert sorted(torch.cat(parts).tolist()) == list(range(600))
    assert min(map(len, parts)) >= 8


def test_the_same_seed_deals_the_same_and_another_does_not():
    again, other = dirichlet(LABELS, 5, 0.3, 4, 1), dirichlet(LABELS, 5, 0.3, 4, 2)
    assert all(map(torch.equal, again, dirichlet(LABELS, 5, 0.3, 4, 1)))
    assert not all(
        len(a) == len(b) and torch.equal(a, b) for a, b in zip(again, other, strict=True)
    )


def shares(parts: list[torch.Tensor]) -> torch.Tensor:
    counts = torch.stack([LABELS[part].bincount(minlength=10) for part in parts]).double()
    return counts / counts.sum(0)


def test_equal_sizes_and_nearly_equal_classes_without_regard_to_labels():
    parts = iid(LABELS, 6, 8, 0)
    assert {len(part) for part in parts} == {100}
    assert float((shares(parts) - 1 / 6).abs().max()) < 0.2


def test_the_shares_have_the_variance_of_the_dirichlet_distribution():
    """Var = (1/K)(1 - 1/K) / (K c + 1), over many draws of 10 classes."""
    clients, concentration = 4, 0.5
    drawn = [shares(dirichlet(LABELS, clients, concentration, 1, seed)) for seed in range(60)]
    found = float(torch.stack(drawn).var())
    expected = 1 / clients * (1 - 1 / clients) / (clients * concentration + 1)
    assert abs(found / expected - 1) < 0.1


@pytest.mark.parametrize(
    "deal", [lambda: iid(LABELS, 100, 8, 0), lambda: dirichlet(LABELS, 30, 0.01, 8, 0)]
)
def test_too_few_images_for_the_clients_are_refused(deal):
    with pytest.raises(DataError, match=r"600 training images for \d+ clients: one would have"):
        deal()
