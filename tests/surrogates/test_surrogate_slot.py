import math

import pytest
import surrogate_references as reference
import torch
from surrogate_batches import BATCHES, batch, built, compare, of_seed

SMALL = {"slots": 3, "iterations": 2, "heads": 2}


def small(num_classes, dim, **options):
    return built("slot", num_classes, dim, **SMALL | options)


@pytest.mark.parametrize("name", BATCHES)
def test_value_and_gradient_equal_the_loops(name):
    z, y, num_classes = batch(name)
    surrogate = small(num_classes, z.shape[1])
    compare(reference.slot, surrogate.double(), z.double(), y, 1e-9)
    if name != "equal features":  # whose pulls cancel to what single precision does not resolve
        compare(reference.slot, surrogate.float(), z, y, 1e-5)


@pytest.mark.parametrize(
    "options",
    [
        {"slots": 8, "iterations": 3, "heads": 4},  # as published
        {"beta": 3.0},
        {"sharpening": 1.0},
        {"sharpening": 0.5},
        {"snr_gate": False},
        {"refinement": 0.0},
        {"refinement": 1},
        {"margin": 2.0, "snr_threshold": 0.25},
    ],
)
def test_other_sizes_gates_and_starts_equal_the_loops(options):
    z, y, num_classes = batch("unequal")
    surrogate = small(num_classes, z.shape[1], **options).double()
    compare(reference.slot, surrogate, z.double(), y, 1e-9)
    usual = small(num_classes, z.shape[1]).double()
    assert abs(of_seed(surrogate, z.double(), y) / of_seed(usual, z.double(), y) - 1) > 1e-4


def test_published_start_values():
    surrogate = built("slot", 2, 8)
    start = {name: p.item() for name, p in surrogate.named_parameters() if p.numel() == 1}
    b_s = start.pop("gate.raw_b_s")
    assert math.log1p(math.exp(b_s)) == pytest.approx(1)
    assert start == pytest.approx(
        {"beta": 10, "a_c": 10, "b_c": 0, "gate.m0": 0, "gate.b_snr": 1, "gate.t_snr": 1}
        | {"refine.a1": 0.1, "refine.a2": 0.1}
    )


def test_log_reports_entropy_and_gates():
    z, y, num_classes = batch("balanced")
    surrogate = small(num_classes, z.shape[1])
    torch.nn.init.zeros_(surrogate.beta)  # every sample belongs to all slots alike
    torch.nn.init.zeros_(surrogate.a_c)
    value = surrogate(z, y).item()
    notes = surrogate.log()
    assert notes["value"] == pytest.approx(value)
    assert notes["slot_entropy"] == pytest.approx(math.log(3))
    assert notes["class_gate"] == 0.5
    assert notes["active"] == 1
    assert notes["classes"] == 4
    assert 0 < notes["gate"] < 1


def test_log_counts_the_classes_and_the_variances_above_the_ceiling():
    """One class is spread, one is a single point, a pair is too small."""
    z = torch.rand(8, 8, generator=torch.Generator().manual_seed(1))
    z[3:6] = z[3]
    surrogate = small(4, 8)
    surrogate(z, torch.tensor([2, 2, 2, 0, 0, 0, 1, 1]))
    assert surrogate.log()["classes"] == 2
    assert surrogate.log()["active"] == 0.5
