"""The fusions against loops in float64, and against each branch alone."""

import math

import pytest
import surrogate_references as reference
import torch
from surrogate_batches import BATCHES, batch, built, compare, of_seed, value_and_gradient

from cemlib.config.surrogates import Shortcut

CASES = [(name, {}) for name in BATCHES]
CASES += [
    ("unequal", {"moments": "raw", "variance": "diagonal", "gate": "log"}),
    ("unequal", {"moments": "layernorm", "variance": "trace", "gate": "log"}),
    ("unequal", {"moments": "raw", "variance": "trace", "gate": "linear"}),
]
SMALL = {"slots": 3, "iterations": 2, "heads": 2}
BOTH = pytest.mark.parametrize("kind", ["parallel", "shortcut"])


def small(kind, num_classes, dim, **options):
    return built(kind, num_classes, dim, **SMALL | {"hidden": 7} | options)


def alone(fusion, kind, **options):
    """A surrogate of one branch's kind with that branch's parameters."""
    surrogate = built(kind, fusion.num_classes, fusion.dim, **options)
    surrogate.load_state_dict((fusion.gated if kind == "gated" else fusion.slot).state_dict())
    return surrogate


def move_off_the_start(fusion):
    """Unequal logits, another strength: at the start a mistake could hide behind symmetry."""
    with torch.no_grad():
        if hasattr(fusion, "logits"):
            fusion.logits.copy_(torch.tensor([0.3, -0.4]))
        else:
            fusion.a.fill_(0.5)


@BOTH
@pytest.mark.parametrize(("name", "options"), CASES)
def test_value_and_gradient_equal_the_loops(kind, name, options):
    z, y, num_classes = batch(name)
    fusion, loops = small(kind, num_classes, z.shape[1], **options), getattr(reference, kind)
    move_off_the_start(fusion)
    compare(loops, fusion.double(), z.double(), y, 1e-9)
    compare(loops, fusion.float(), z, y, 1e-5)


@pytest.mark.parametrize("variance", ["diagonal", "trace"])
def test_the_floor_acts_on_the_sum_once(variance):
    """Subtracting the slots' variances takes some sums below it, and then all of them."""
    z, y, num_classes = batch("unequal")
    fusion = small("shortcut", num_classes, 12, moments="raw", variance=variance, gate="linear")
    level = z.double()
    level[:, 0] = 0.5  # v_gated is 0 here: a floor of its own would show
    compare(reference.shortcut, fusion.double(), level, y, 1e-9)
    torch.nn.init.constant_(fusion.a, -0.05)
    compare(reference.shortcut, fusion, z.double(), y, 1e-9)
    torch.nn.init.constant_(fusion.a, -3)
    only_large, labels = z[y < 3].double(), y[y < 3]  # a pair has no slots to subtract
    value, slopes = value_and_gradient(
        lambda z: of_seed(fusion, z, labels), only_large, *fusion.parameters()
    )
    assert value.item() == pytest.approx(0.1 * 1e-6)
    assert all(slope.abs().max() == 0 for slope in slopes)


def test_the_variances_of_slots_have_no_floor_of_their_own():
    """Twelve floors would add up to more than one."""
    fusion = small("shortcut", 1, 12, variance="trace", gate="linear")
    move_off_the_start(fusion)
    value = fusion(torch.rand(12).repeat(3, 1), torch.zeros(3, dtype=torch.long))
    assert value.item() == pytest.approx(0.1 * 1e-6)


@BOTH
def test_the_attention_is_drawn_as_for_gated(kind):
    """The same global seed makes the same attention, whatever the slots draw after it."""
    gated = built("gated", 4, 8, seed=3, hidden=7)
    assert torch.equal(small(kind, 4, 8, seed=3).gated.V.weight, gated.V.weight)


@BOTH
@pytest.mark.parametrize(("surrogate_grad", "factor"), [("stop", 0), ("ascend", -1)])
def test_surrogate_grad_concerns_the_gated_attention_alone(kind, surrogate_grad, factor):
    z, y, num_classes = batch("unequal")
    slopes = []
    for how in ("descend", surrogate_grad):
        fusion = small(kind, num_classes, z.shape[1], seed=3, surrogate_grad=how).double()
        move_off_the_start(fusion)
        _, found = value_and_gradient(
            lambda z, f=fusion: of_seed(f, z, y), z.double(), *fusion.parameters()
        )
        slopes.append(dict(zip(["z", *dict(fusion.named_parameters())], found, strict=True)))
    for name, slope in slopes[0].items():
        expected = factor * slope if name.startswith("gated.") else slope
        torch.testing.assert_close(slopes[1][name], expected, rtol=1e-9, atol=1e-12)


def test_parallel_mixes_what_each_is_alone():
    z, y, num_classes = batch("unequal")
    fusion = small("parallel", num_classes, z.shape[1], scale=0.7, slot_scale=0.2)
    assert fusion.logits.tolist() == [0, 0]
    move_off_the_start(fusion)
    gated = alone(fusion, "gated", hidden=7, scale=0.7)
    slot = alone(fusion, "slot", **SMALL, scale=0.2)
    values = gated(z, y).item(), of_seed(slot, z, y).item()
    share = 1 / (1 + math.exp(0.3 + 0.4))
    first, second = gated.log(), slot.log()
    assert of_seed(fusion, z, y).item() == pytest.approx(
        (1 - share) * values[0] + share * values[1]
    )
    mixed = (1 - share) * first["active"] + share * second["active"]
    assert fusion.log() == pytest.approx(
        {**second, **first}
        | {"value": fusion.log()["value"], "active": mixed, "slot_share": share}
        | {"gated_value": values[0], "slot_value": values[1]}
    )
    assert first["classes"] == second["classes"] + 1


def test_a_nonnegative_strength_never_rewards_spread():
    z, y, num_classes = batch("unequal")
    free, bounded = (small("shortcut", num_classes, 12, nonnegative=on) for on in (False, True))
    bounded.load_state_dict(free.state_dict())
    assert of_seed(bounded, z, y) == of_seed(free, z, y)
    for each in (free, bounded):
        torch.nn.init.constant_(each.a, -0.3)
    gated = alone(bounded, "gated", hidden=7)
    assert of_seed(free, z, y) < of_seed(bounded, z, y) == gated(z, y)
    of_seed(bounded, z, y).backward()
    assert bounded.a.grad == 0


def test_a_nonnegative_strength_starts_above_zero():
    """At 0 and below it has no gradient, so that the slots would never act."""
    with pytest.raises(ValueError, match="residual is 0; with `nonnegative` it must be above 0"):
        Shortcut(nonnegative=True, residual=0.0)


def test_notes_of_shortcut():
    z, y, num_classes = batch("unequal")
    fusion = small("shortcut", num_classes, z.shape[1], gate="linear")
    value = of_seed(fusion, z, y).item()
    gated = alone(fusion, "gated", hidden=7)
    slot = alone(fusion, "slot", **SMALL)
    gated(z, y), of_seed(slot, z, y)
    assert fusion.log() == pytest.approx(
        {
            "value": value,
            "classes": 4,
            "active": 1,
            "strength": torch.tensor(0.1).tanh().item(),
            "effective_sample_size": gated.log()["effective_sample_size"],
            "slot_entropy": slot.log()["slot_entropy"],
        }
    )
