"""Which images each client gets."""

import pytest
import torch

from cemlib.data.errors import DataError
from cemlib.federated import setting
from cemlib.federated.setting import dealt

LABELS = torch.arange(10).repeat_interleave(60)


@pytest.mark.parametrize("parts", [dealt(LABELS, 7, how, 8, 0) for how in (None, 0.5)])
def test_every_image_goes_to_one_client(parts):
    assert sorted(torch.cat(parts).tolist()) == list(range(600))
    assert min(map(len, parts)) >= 8


def test_the_same_seed_deals_the_same_and_another_does_not():
    again, other = dealt(LABELS, 5, 0.3, 4, 1), dealt(LABELS, 5, 0.3, 4, 2)
    assert all(map(torch.equal, again, dealt(LABELS, 5, 0.3, 4, 1)))
    assert not all(
        len(a) == len(b) and torch.equal(a, b) for a, b in zip(again, other, strict=True)
    )


def shares(parts: list[torch.Tensor]) -> torch.Tensor:
    counts = torch.stack([LABELS[part].bincount(minlength=10) for part in parts]).double()
    return counts / counts.sum(0)


def test_equal_sizes_and_nearly_equal_classes_without_regard_to_labels():
    parts = dealt(LABELS, 6, None, 8, 0)
    assert {len(part) for part in parts} == {100}
    assert float((shares(parts) - 1 / 6).abs().max()) < 0.2


def test_the_shares_have_the_variance_of_the_dirichlet_distribution():
    """Var = (1/K)(1 - 1/K) / (K c + 1), over many draws of 10 classes."""
    clients, concentration = 4, 0.5
    drawn = [shares(dealt(LABELS, clients, concentration, 1, seed)) for seed in range(60)]
    found = float(torch.stack(drawn).var())
    expected = 1 / clients * (1 - 1 / clients) / (clients * concentration + 1)
    assert abs(found / expected - 1) < 0.1


@pytest.mark.parametrize(("clients", "concentration"), [(100, None), (30, 0.01)])
def test_too_few_images_for_the_clients_are_refused(clients, concentration, monkeypatch):
    monkeypatch.setattr(setting, "ATTEMPTS", 20)
    with pytest.raises(DataError, match=rf"600 training images for {clients} clients: one would"):
        dealt(LABELS, clients, concentration, 8, 0)
