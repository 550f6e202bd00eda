"""Which way the fusions pull on the features, and on what they learn themselves."""

import pytest
import torch
from fusion_references import alone, built, of_seed
from surrogate_batches import batch, value_and_gradient

from cemlib.surrogates.fusion import ParallelFusion, ShortcutFusion
from cemlib.surrogates.gated import GatedAttention

BOTH = pytest.mark.parametrize("kind", [ParallelFusion, ShortcutFusion])


def trained(fusion, z, y, parameter, steps):
    """Notes after gradient descent of one parameter on one batch, the same slots in every step."""
    for _ in range(steps):
        _, (_, slope) = value_and_gradient(lambda z: of_seed(fusion, z, y), z, parameter)
        with torch.no_grad():
            parameter -= 5 * slope
    of_seed(fusion, z, y)
    return fusion.log()


@pytest.mark.parametrize(("gated_scale", "slot_scale"), [(1.0, 0.1), (0.1, 1.0)])
def test_training_moves_the_share_to_the_smaller_penalty(gated_scale, slot_scale):
    """Whatever it protects: here only the constant factors decide."""
    z, y, num_classes = batch("unequal")
    scales = {"scale": gated_scale, "slot_scale": slot_scale}
    fusion = built(ParallelFusion, num_classes, z.shape[1], **scales)
    notes = trained(fusion, z, y, fusion.logits, 10)
    slot_is_smaller = notes["slot_value"] < notes["gated_value"]
    assert slot_is_smaller == (slot_scale < gated_scale)
    assert notes["slot_share"] > 0.9 if slot_is_smaller else notes["slot_share"] < 0.1
    assert notes["value"] < 0.5 * (notes["slot_value"] + notes["gated_value"])


def test_training_only_lowers_the_strength_and_makes_it_negative():
    z, y, num_classes = batch("unequal")
    fusion = built(ShortcutFusion, num_classes, z.shape[1])
    strengths = [trained(fusion, z, y, fusion.a, steps)["strength"] for steps in (0, 1, 2, 4)]
    assert strengths == sorted(strengths, reverse=True)
    assert strengths[0] > 0 > strengths[-1]


def normalised(z):
    return torch.nn.functional.layer_norm(z.double(), z.shape[-1:])


def outward(surrogate, x, y):
    """Slope of the penalty along the way out from the class's centre, per class of three."""
    centres = torch.stack([x[y == label].mean(0) for label in y])
    _, (slope,) = value_and_gradient(lambda x: of_seed(surrogate, x, y), x)
    along = (slope * (x - centres)).sum(1)
    return [along[y == c].sum().item() for c in y.unique() if (y == c).sum() >= 3]


@BOTH
@pytest.mark.parametrize("name", ["balanced", "unequal", "wide"])
def test_normalised_features_are_pulled_to_their_class_centre(kind, name):
    """At the start, as in both branches; trained attention and gates can undo it there."""
    z, y, num_classes = batch(name)
    fusion, x = built(kind, num_classes, z.shape[1]).double(), normalised(z)
    centres = torch.stack([x[y == label].mean(0) for label in y])
    values = [of_seed(fusion, centres + t * (x - centres), y).item() for t in (1, 0.5, 0.1, 0.02)]
    assert values == sorted(values, reverse=True)
    assert values[-1] < 0.3 * values[0]
    assert min(outward(fusion, x, y)) > 0


@BOTH
def test_with_layernorm_the_scale_of_features_is_not_seen(kind):
    z, y, num_classes = batch("unequal")
    z = 1e3 * z.double()  # large beside LayerNorm's eps of 1e-5
    fusion = built(kind, num_classes, z.shape[1]).double()
    value = of_seed(fusion, z, y).item()
    assert of_seed(fusion, 10 * z, y).item() == pytest.approx(value, rel=1e-6)


@BOTH
def test_raw_moments_see_the_scale_but_the_slots_do_not(kind):
    """Shrinking all features brings `gated` to 0; what the slots add hardly notices."""
    z, y, num_classes = batch("unequal")
    fusion = built(kind, num_classes, z.shape[1], moments="raw")
    gated = alone(fusion, GatedAttention, hidden=7, moments="raw")
    assert gated(0.02 * z, y) < 0.01 * gated(z, y)
    assert of_seed(fusion, 0.02 * z, y) > 0.4 * of_seed(fusion, z, y)


def test_a_negative_strength_rewards_the_spread_around_slots():
    """The slots' part then pushes outwards, against the pull of `gated`."""
    z, y, num_classes = batch("balanced")
    x = normalised(z)
    pulls = []
    for a in (0.1, 0.0, -0.1, -0.3):
        fusion = built(ShortcutFusion, num_classes, z.shape[1], gate="linear").double()
        torch.nn.init.constant_(fusion.a, a)
        pulls.append(sum(outward(fusion, x, y)))
    assert pulls == sorted(pulls, reverse=True)
