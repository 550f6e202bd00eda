"""What holds for every surrogate, whatever its options, and the dict they are listed in."""

import copy

import pytest
import torch
from surrogate_batches import batch, built, centres_of, normalised, of_seed, outward
from tape import Tape

from cemlib.config import ConfigError
from cemlib.config.surrogates import SurrogateConfig
from cemlib.surrogates import SURROGATES, Surrogate, build

VARIANTS = {name: (name, {}) for name in SURROGATES} | {
    "clustering, diagonal": ("clustering", {"variance": "diagonal"}),
    "clustering, published rows": (
        "clustering",
        {"variance": "diagonal", "reference_indexing": True},
    ),
    "clustering, batch": ("clustering", {"form": "batch"}),
    "clustering, linear": ("clustering", {"gate": "linear"}),
    "gmm, full": ("gmm", {"covariance": "full"}),
    "logdet, momentum": ("logdet", {"momentum": 0.9}),
}
FITTED = [variant for variant, (name, _) in VARIANTS.items() if SURROGATES[name].refit]
NORMALISING = ["gated", "slot", "parallel", "shortcut"]
every = pytest.mark.parametrize("variant", VARIANTS)


def made(variant, num_classes=4, dim=8, seed=0):
    """A surrogate that has fitted and learned what it needs."""
    name, options = VARIANTS[variant]
    surrogate = built(name, num_classes, dim, seed=seed, **options)
    y = torch.arange(10 * num_classes) % num_classes
    surrogate.fit(torch.rand(len(y), dim, generator=torch.Generator().manual_seed(5)), y)
    surrogate.learn(torch.arange(dim).diag())
    return surrogate


def kernels(variant, labels):
    """Kernel calls of a step on 24 samples of the labels 0 .. labels - 1; a wait is refused."""
    surrogate = made(variant, num_classes=labels)
    z, y = torch.rand(24, 8, requires_grad=True), torch.arange(24) % labels
    with Tape() as seen:
        surrogate(z, y).backward()
    return len(seen.calls)


@every
def test_a_step_never_waits_for_the_device_and_loops_over_no_classes(variant):
    assert kernels(variant, 2) == kernels(variant, 8)


@every
def test_autocast_and_half_precision_compute_in_float32(variant):
    z, y = torch.rand(16, 8).bfloat16(), torch.arange(16) % 4
    surrogate = made(variant)
    plain = of_seed(surrogate, z.float(), y)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        cast = of_seed(surrogate, z, y)
    assert cast.dtype == torch.float32
    assert torch.equal(cast, plain)


@every
def test_restored_state_and_a_copy_continue_bit_for_bit(variant):
    """Between epochs, each of which begins with another metric, and ends with another fit."""
    z, y, num_classes = batch("unequal")
    first, second = (made(variant, num_classes, z.shape[1], seed) for seed in (0, 1))
    first(z, y)
    second.load_state_dict(first.state_dict())
    third, outcomes = copy.deepcopy(first), []
    for surrogate in (first, second, third):
        values = []
        for epoch in (1, 2):
            surrogate.learn(torch.arange(z.shape[1]).add(epoch).diag())
            surrogate.reseed(epoch)
            values += [surrogate(z + shift, y).item() for shift in (0, 0.1)]
            surrogate.fit(z * epoch, y)
        outcomes.append((values, surrogate.log()))
    assert outcomes[0] == outcomes[1] == outcomes[2]


@pytest.mark.parametrize("name", SURROGATES)
def test_wrong_shapes_are_refused(name):
    surrogate = made(name)
    with pytest.raises(ValueError, match=r"z has shape \(4, 2, 4\).*flatten"):
        surrogate(torch.rand(4, 2, 4), torch.arange(4))
    with pytest.raises(ValueError, match=r"y has shape \(3,\)"):
        surrogate(torch.rand(4, 8), torch.arange(3))
    with pytest.raises(ValueError, match="at least one"):
        surrogate(torch.rand(0, 8), torch.arange(0))


class Returns(Surrogate):
    """A surrogate under development, whose penalty is what a test makes of its features."""

    def __init__(self, made_of):
        super().__init__(SurrogateConfig(), dim=8, num_classes=4, noise_std=0.1)
        self._made_of = made_of

    def penalty(self, z, _):
        return self._made_of(z)


NOTES = {"classes": torch.ones(()), "active": torch.ones(())}


@pytest.mark.parametrize(
    ("made_of", "message"),
    [
        (lambda z: (z.mean(1), NOTES), r"\(a tensor of shape \(16,\), \{'cl.*; return the penalty"),
        (lambda z: z.mean(), r"returned a tensor of shape \(\); return the penalty, a scalar"),
        (lambda _: (1.0, NOTES), r"returned \(float, \{'classes'"),
        (lambda z: (z.detach().mean(), NOTES), "without a gradient, so it would not act"),
        (lambda z: (z.mean(), {"classes": z[0, 0]}), r"shape \(\)\}\); .*'classes' and 'active'"),
        (lambda z: (z.mean(), NOTES | {"spread": z}), r"'spread': a tensor of shape \(16, 8\)\}"),
        (lambda z: (z.mean(), NOTES | {"spread": 0.5}), r"'spread': float\}"),
    ],
)
def test_a_penalty_that_returns_something_else_is_refused_and_named(made_of, message):
    z, y = torch.rand(16, 8, requires_grad=True), torch.arange(16) % 4
    with pytest.raises(ValueError, match=rf"test_surrogate_common\.Returns\.penalty.*{message}"):
        Returns(made_of)(z, y)


@every
def test_the_log_is_of_the_last_batch_and_the_epochs_numbers_are_means(variant):
    surrogate, batches = made(variant), torch.rand(3, 16, 8)
    assert surrogate.log() == {}
    logs = []
    for z in batches:
        value = surrogate(z, torch.arange(16) % 4)
        logs.append(surrogate.log())
        assert logs[-1]["value"] == pytest.approx(value.item(), rel=1e-6)
        assert all(isinstance(number, float) for number in logs[-1].values())
    drained = surrogate.drain()
    for key in logs[0]:
        assert drained[key] == pytest.approx(sum(log[key] for log in logs) / 3), key
    assert (drained["steps"], drained["idle_steps"], drained["classes"]) == (3, 0, 4)
    assert surrogate.drain() == {}
    surrogate(batches[0], torch.arange(16) % 4)
    assert surrogate.drain()["steps"] == 1


@pytest.mark.parametrize("name", NORMALISING)
def test_batches_without_a_large_enough_class_are_counted_as_idle(name):
    surrogate = made(name, num_classes=8)
    for y in (torch.arange(8), torch.arange(8) % 2, torch.arange(8)):
        z = torch.rand(8, 8, requires_grad=True)
        value = surrogate(z, y)
        value.backward()
    assert value == 0
    assert torch.equal(z.grad, torch.zeros(8, 8))
    assert surrogate.log()["classes"] == surrogate.log()["active"] == 0
    drained = surrogate.drain()
    assert (drained["steps"], drained["idle_steps"]) == (3, 2)
    assert drained["active_steps"] == pytest.approx(1 / 3)


def test_a_fit_is_due_at_the_end_of_the_first_epoch_and_then_of_every_third():
    surrogate = built("clustering", 2, 4, refit=3)
    assert [epoch for epoch in range(1, 9) if surrogate.fit_is_due(epoch)] == [1, 4, 7]


@pytest.mark.parametrize("variant", FITTED)
def test_before_a_fit_every_batch_is_idle(variant):
    name, options = VARIANTS[variant]
    surrogate = built(name, 4, 8, **options)
    z = torch.rand(16, 8, requires_grad=True)
    value = surrogate(z, torch.arange(16) % 4)
    value.backward()
    assert value == 0
    assert torch.equal(z.grad, torch.zeros(16, 8))
    notes = surrogate.log()
    assert notes["classes"] == notes["active"] == 0
    assert surrogate.drain()["idle_steps"] == 1


@pytest.mark.parametrize("variant", FITTED)
def test_contracting_fitted_features_lowers_the_penalty(variant):
    """On raw features, and the negative gradient of each sample points to its centre."""
    name, options = VARIANTS[variant]
    z, y, num_classes = batch("balanced")
    surrogate = built(name, num_classes, z.shape[1], **options | {"clusters": 1})
    surrogate.fit(z, y)
    centres = surrogate.means[y, 0]
    values = [surrogate(centres + t * (z - centres), y).item() for t in (1.5, 1, 0.5, 0.2)]
    assert values == sorted(values, reverse=True)
    assert values[-1] < 0.8 * values[0]
    z.requires_grad_()
    surrogate(z, y).backward()
    assert ((z.grad * (z - centres)).sum(1) > 0).all()


@pytest.mark.parametrize("name", NORMALISING)
@pytest.mark.parametrize("shape", ["balanced", "unequal", "wide"])
def test_normalised_features_are_pulled_to_their_class_centre(name, shape):
    """At the start: trained attention and gates can undo it."""
    z, y, num_classes = batch(shape)
    surrogate, x = built(name, num_classes, z.shape[1]).double(), normalised(z)
    centres = centres_of(x, y)
    shares = (1, 0.7, 0.4, 0.1)
    values = [of_seed(surrogate, centres + t * (x - centres), y).item() for t in shares]
    assert values == sorted(values, reverse=True)
    assert values[-1] < 0.5 * values[0]
    assert min(outward(surrogate, x, y, smallest=2 if name == "gated" else 3)) > 0


@pytest.mark.parametrize("name", NORMALISING)
def test_with_layernorm_the_scale_of_features_is_not_seen(name):
    z, y, num_classes = batch("unequal")
    z = 1e3 * z.double()  # large beside LayerNorm's eps of 1e-5
    surrogate = built(name, num_classes, z.shape[1]).double()
    value = of_seed(surrogate, z, y).item()
    for scale in (0.1, 10):
        assert of_seed(surrogate, scale * z, y).item() == pytest.approx(value, rel=1e-6)


@pytest.mark.parametrize("name", ["slot", "parallel", "shortcut"])
def test_the_slots_noise_is_of_their_own_generator(name):
    """Fresh in every step, other for other seeds, and no part of the global stream."""
    z, y, num_classes = batch("balanced")
    surrogate, before = built(name, num_classes, z.shape[1]), torch.get_rng_state()
    first, second = of_seed(surrogate, z, y, 5).item(), surrogate(z, y).item()
    assert len({first, second, of_seed(surrogate, z, y, 6).item()}) == 3
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(99)
    assert of_seed(surrogate, z, y, 5).item() == first


@pytest.mark.parametrize(
    ("name", "option", "value"),
    [
        ("gated", "scale", 0.0),
        ("slot", "heads", 3),
        ("parallel", "heads", 3),
        *((name, "noise_std", 0) for name in ("gmm", "logdet", "logdet_gated", "task_aware")),
    ],
)
def test_options_out_of_range_are_named(name, option, value):
    with pytest.raises(ValueError, match=rf"\b{option}\b"):
        built(name, 2, 8, **{option: value})


def test_an_unknown_name_or_option_gets_the_nearest():
    sizes = {"dim": 4, "num_classes": 2, "noise_std": 0.1}
    with pytest.raises(ConfigError, match=r"'gate'; did you mean 'gated'.*clustering, gmm, gated"):
        build("gate", **sizes)
    with pytest.raises(ConfigError, match=r"slot: unknown key.*did you mean 'slots'"):
        build("slot", slot=3, **sizes)
    with pytest.raises(ConfigError, match="zzz: unknown key"):
        build("clustering", zzz=3, **sizes)
