import copy
import math

import fusion_references as reference
import pytest
import torch
from fusion_references import NOISE_STD, SMALL, alone, built, of_seed
from surrogate_batches import BATCHES, assert_gradients_near, assert_near, batch, value_and_gradient

from cemlib.surrogates.fusion import ParallelFusion, ShortcutFusion
from cemlib.surrogates.gated import GatedAttention
from cemlib.surrogates.slot import SlotAttention

ATTENTION = [
    {"moments": "layernorm", "variance": "diagonal", "gate": "log"},
    {"moments": "raw", "variance": "diagonal", "gate": "log"},
    {"moments": "layernorm", "variance": "trace", "gate": "log"},
    {"moments": "raw", "variance": "trace", "gate": "linear"},
]
BOTH = pytest.mark.parametrize("kind", [ParallelFusion, ShortcutFusion])


def start_noise(fusion, y, dtype):
    """The first noise after reseed(11): a row for each class of three or more, if any."""
    rows = min(fusion.num_classes, max(1, len(y) // 3))
    stream = torch.Generator().manual_seed(11)
    shape = (rows, fusion.slot.slots, fusion.dim)
    return torch.randn(shape, generator=stream, dtype=dtype).double()


def by_loops(fusion, z, y, state, noise):
    gated = fusion.gated
    options = {
        "attention": {
            "normalise": gated.moments == "layernorm",
            "trace": gated.variance == "trace",
            "gate": gated.gate,
        },
        "competition": {"iterations": SMALL["iterations"], "heads": SMALL["heads"]},
        "noise_std": NOISE_STD,
    }
    if isinstance(fusion, ParallelFusion):
        scales = (gated.scale, fusion.slot.scale)
        return reference.parallel(z, y, state, noise, scales=scales, **options)
    return reference.shortcut(z, y, state, noise, scale=gated.scale, **options)


def compare(fusion, z, y, rel):
    """Value and gradients, at z and at every parameter, against the loops in float64."""
    noise = start_noise(fusion, y, z.dtype)
    named = dict(fusion.named_parameters())
    value, slopes = value_and_gradient(lambda z: of_seed(fusion, z, y), z, *named.values())
    state = {name: p.detach().double().requires_grad_() for name, p in named.items()}
    expected, exact = value_and_gradient(
        lambda z: by_loops(fusion, z, y, state, noise), z.double(), *state.values()
    )
    assert_near(value, expected, rel)
    assert_gradients_near(slopes, exact, rel)


def move_off_the_start(fusion):
    """Unequal logits, another strength: at the start a mistake could hide behind symmetry."""
    with torch.no_grad():
        if isinstance(fusion, ParallelFusion):
            fusion.logits.copy_(torch.tensor([0.3, -0.4]))
        else:
            fusion.a.fill_(0.5)


@BOTH
@pytest.mark.parametrize("name", BATCHES)
def test_value_and_gradient_equal_the_loops(kind, name):
    z, y, num_classes = batch(name)
    fusion = built(kind, num_classes, z.shape[1])
    move_off_the_start(fusion)
    compare(fusion.double(), z.double(), y, 1e-9)
    compare(fusion.float(), z, y, 1e-5)


@BOTH
@pytest.mark.parametrize("attention", ATTENTION)
def test_options_of_the_gated_branch_equal_the_loops(kind, attention):
    z, y, num_classes = batch("unequal")
    fusion = built(kind, num_classes, z.shape[1], **attention)
    move_off_the_start(fusion)
    compare(fusion.double(), z.double(), y, 1e-9)
    compare(fusion.float(), z, y, 1e-5)


@pytest.mark.parametrize("variance", ["diagonal", "trace"])
def test_the_floor_acts_on_the_sum_once(variance):
    """Subtracting the slots' variances takes some sums below it, and then all of them."""
    z, y, num_classes = batch("unequal")
    fusion = built(ShortcutFusion, num_classes, 12, moments="raw", variance=variance, gate="linear")
    level = z.double()
    level[:, 0] = 0.5  # v_gated is 0 here: a floor of its own would show
    compare(fusion.double(), level, y, 1e-9)
    torch.nn.init.constant_(fusion.a, -0.05)
    compare(fusion, z.double(), y, 1e-9)
    torch.nn.init.constant_(fusion.a, -3)
    only_large, labels = z[y < 3].double(), y[y < 3]  # a pair has no slots to subtract
    value, slopes = value_and_gradient(
        lambda z: of_seed(fusion, z, labels), only_large, *fusion.parameters()
    )
    assert value.item() == pytest.approx(0.1 * 1e-6)
    assert all(slope.abs().max() == 0 for slope in slopes)


def test_the_variances_of_slots_have_no_floor_of_their_own():
    """Twelve floors would add up to more than one."""
    torch.manual_seed(0)
    fusion = built(ShortcutFusion, 1, 12, variance="trace", gate="linear")
    move_off_the_start(fusion)
    value = fusion(torch.rand(12).repeat(3, 1), torch.zeros(3, dtype=torch.long))
    assert value.item() == pytest.approx(0.1 * 1e-6)


@BOTH
@pytest.mark.parametrize("attention", ATTENTION)
@pytest.mark.parametrize("surrogate_grad", ["descend", "stop", "ascend"])
def test_without_slots_both_are_gated_bit_for_bit(kind, attention, surrogate_grad):
    z, y, num_classes = batch("unequal")
    options = {**attention, "surrogate_grad": surrogate_grad, "hidden": 7}
    fusion = built(kind, num_classes, z.shape[1], use_slots=False, **options)
    gated = alone(fusion, GatedAttention, **options)
    results = [
        value_and_gradient(lambda z, s=s: s(z, y), z, *s.parameters()) for s in (fusion, gated)
    ]
    (value, slopes), (expected, exact) = results
    assert torch.equal(value, expected)
    assert len(slopes) == len(exact) == 4
    assert all(torch.equal(slope, other) for slope, other in zip(slopes, exact, strict=True))
    assert fusion.log() == gated.log()


@BOTH
def test_without_slots_only_the_attention_is_made_and_drawn(kind):
    """The same global seed makes the same attention as for `gated`."""
    fusion = built(kind, 4, 8, seed=3, use_slots=False)
    torch.manual_seed(3)
    gated = GatedAttention(dim=8, num_classes=4, noise_std=NOISE_STD, hidden=7)
    assert list(fusion.state_dict()) == [f"gated.{name}" for name in gated.state_dict()]
    assert torch.equal(fusion.gated.V.weight, gated.V.weight)
    assert torch.equal(built(kind, 4, 8, seed=3).gated.V.weight, gated.V.weight)
    fusion.reseed(1)


def test_parallel_mixes_what_each_is_alone():
    z, y, num_classes = batch("unequal")
    fusion = built(ParallelFusion, num_classes, z.shape[1], scale=0.7, slot_scale=0.2)
    move_off_the_start(fusion)
    gated = alone(fusion, GatedAttention, hidden=7, scale=0.7)
    slot = alone(fusion, SlotAttention, **SMALL, scale=0.2)
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


def test_shortcut_at_strength_zero_and_on_pairs_is_gated():
    z, y, num_classes = batch("unequal")
    fusion = built(ShortcutFusion, num_classes, z.shape[1])
    gated = alone(fusion, GatedAttention, hidden=7)
    pairs = torch.arange(10) // 2
    assert of_seed(fusion, z[:10], pairs) == gated(z[:10], pairs)
    assert of_seed(fusion, z, y) > gated(z, y)
    torch.nn.init.zeros_(fusion.a)
    assert of_seed(fusion, z, y) == gated(z, y)


def test_notes_of_shortcut():
    z, y, num_classes = batch("unequal")
    fusion = built(ShortcutFusion, num_classes, z.shape[1], gate="linear")
    value = of_seed(fusion, z, y).item()
    gated = alone(fusion, GatedAttention, hidden=7)
    slot = alone(fusion, SlotAttention, **SMALL)
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


@BOTH
def test_no_class_with_two_samples_gives_zero_attached_to_the_graph(kind):
    z = torch.rand(5, 8, requires_grad=True)
    fusion = built(kind, 5, 8)
    value = fusion(z, torch.arange(5))
    value.backward()
    assert value == 0
    assert torch.equal(z.grad, torch.zeros(5, 8))
    assert fusion.log()["classes"] == fusion.log()["active"] == 0


@BOTH
def test_reseeding_reaches_the_slots_and_leaves_the_global_generator_alone(kind):
    z, y, num_classes = batch("balanced")
    fusion = built(kind, num_classes, z.shape[1])
    before = torch.get_rng_state()
    first, second = of_seed(fusion, z, y, 5), fusion(z, y)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(of_seed(fusion, z, y, 5), first)
    assert not torch.equal(first, second)
    assert not torch.equal(of_seed(fusion, z, y, 6), first)


@BOTH
def test_restored_state_and_a_copy_continue_bit_for_bit(kind):
    z, y, num_classes = batch("unequal")
    first, second = (built(kind, num_classes, z.shape[1], seed=seed) for seed in (0, 1))
    move_off_the_start(first)
    second.load_state_dict(first.state_dict())
    assert torch.equal(of_seed(first, z, y, 3), of_seed(second, z, y, 3))
    third = copy.deepcopy(first)
    following = first(z, y)
    assert torch.equal(second(z, y), following)
    assert torch.equal(third(z, y), following)


def test_the_attention_trains_as_asked_and_the_rest_descends():
    z, y, num_classes = batch("unequal")
    slopes = {}
    for mode in ("descend", "ascend", "stop"):
        fusion = built(ShortcutFusion, num_classes, z.shape[1], surrogate_grad=mode)
        of_seed(fusion, z, y).backward()
        slopes[mode] = {name: p.grad for name, p in fusion.named_parameters()}
    for name, down in slopes["descend"].items():
        if name.startswith("gated."):
            assert torch.equal(slopes["ascend"][name], -down)
            assert slopes["stop"][name] is None
        elif down is not None:
            assert torch.equal(slopes["ascend"][name], down)
    unused = {name for name, slope in slopes["descend"].items() if slope is None}
    assert unused == {
        n for n in slopes["descend"] if n.startswith(("slot.gate", "slot.a_", "slot.b_"))
    }


def test_published_start_values():
    common = {"dim": 8, "num_classes": 2, "noise_std": NOISE_STD}
    parallel, shortcut = ParallelFusion(**common), ShortcutFusion(**common)
    assert parallel.logits.tolist() == [0, 0]
    assert shortcut.a.item() == pytest.approx(0.1)
    assert (parallel.gated.scale, parallel.slot.scale, shortcut.gated.scale) == (0.1, 0.25, 0.1)
    assert (parallel.start_epoch, shortcut.start_epoch) == (6, 6)
    assert parallel.slot.slots == 8
    assert parallel.slot.rounds.iterations == 3


@pytest.mark.parametrize(
    ("kind", "option", "value"),
    [
        (ParallelFusion, "scale", 0.0),
        (ParallelFusion, "slot_scale", -1.0),
        (ParallelFusion, "heads", 3),
        (ShortcutFusion, "scale", 0.0),
        (ShortcutFusion, "moments", "batch"),
        (ShortcutFusion, "slots", 0),
        (ShortcutFusion, "var_threshold", 0.0),
    ],
)
def test_bad_options_are_named(kind, option, value):
    with pytest.raises(ValueError, match=rf"^{option} is"):
        kind(**{"dim": 8, "num_classes": 2, "noise_std": 0.1, option: value})
