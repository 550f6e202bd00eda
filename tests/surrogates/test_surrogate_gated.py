import pytest
import surrogate_references as reference
import torch
from surrogate_batches import BATCHES, assert_gradients_near, assert_near, batch, value_and_gradient

from cemlib.surrogates.gated import GatedAttention

NOISE_STD = 0.025


def built(num_classes, dim, noise_std=NOISE_STD, seed=0, **options):
    torch.manual_seed(seed)
    return GatedAttention(dim=dim, num_classes=num_classes, noise_std=noise_std, **options)


def weights(surrogate):
    return [part.weight for part in (surrogate.V, surrogate.U, surrogate.w)]


def set_weights(surrogate, V, U, w):
    with torch.no_grad():
        for weight, new in zip(weights(surrogate), (V, U, w), strict=True):
            weight.copy_(torch.as_tensor(new))


def by_loops(surrogate, z, y, parameters):
    return reference.gated(
        z,
        y,
        *parameters,
        noise_std=surrogate.noise_std,
        normalise=surrogate.moments == "layernorm",
        trace=surrogate.variance == "trace",
        gate=surrogate.gate,
        scale=surrogate.scale,
    )


def compare(surrogate, z, y, rel):
    """Value and gradients, at z and at V, U and w, against the loops in float64."""
    value, slopes = value_and_gradient(lambda z: surrogate(z, y), z, *weights(surrogate))
    parameters = [weight.detach().double().requires_grad_() for weight in weights(surrogate)]
    expected, exact = value_and_gradient(
        lambda z: by_loops(surrogate, z, y, parameters), z.double(), *parameters
    )
    assert_near(value, expected, rel)
    assert_gradients_near(slopes, exact, rel)


@pytest.mark.parametrize("name", BATCHES)
@pytest.mark.parametrize("moments", ["layernorm", "raw"])
@pytest.mark.parametrize("variance", ["diagonal", "trace"])
@pytest.mark.parametrize("gate", ["log", "linear"])
def test_value_and_gradient_equal_the_loops(name, moments, variance, gate):
    z, y, num_classes = batch(name)
    surrogate = built(
        num_classes, z.shape[1], moments=moments, variance=variance, gate=gate, hidden=7
    )
    compare(surrogate.double(), z.double(), y, 1e-10)
    compare(surrogate.float(), z, y, 1e-5)


@pytest.mark.parametrize("moments", ["layernorm", "raw"])
def test_equal_features_equal_the_loops(moments):
    y = torch.tensor([0, 0, 1, 1, 2])
    compare(built(3, 8, moments=moments), torch.full((5, 8), 0.3), y, 1e-5)


def test_no_class_with_two_samples_gives_zero_attached_to_the_graph():
    z = torch.rand(5, 8, requires_grad=True)
    surrogate = built(5, 8)
    value = surrogate(z, torch.arange(5))
    value.backward()
    assert value == 0
    assert torch.equal(z.grad, torch.zeros(5, 8))
    notes = {"value": 0, "classes": 0, "active": 0, "effective_sample_size": 0}
    assert surrogate.log() == notes


@pytest.mark.parametrize(("gate", "active"), [("log", 0.75), ("linear", 1)])
def test_classes_and_active_hinges_are_counted(gate, active):
    """Of two classes with two samples or more, one has half of its variances under the ceiling."""
    z = torch.tensor([[0.0, 0.0], [1.0, 1e-3], [0.0, 0.0], [1.0, 1.0], [0.3, 0.2]])
    surrogate = built(5, 2, moments="raw", gate=gate)
    surrogate(z, torch.tensor([3, 3, 1, 1, 0]))
    assert surrogate.log()["classes"] == 2
    assert surrogate.log()["active"] == active


def worked_classes():
    """The second worked example: two classes, V = I, U = I / 2, w = (1, 1), tau = .02 + 1e-6."""
    z = [[0, 0], [0.2, 0.1], [-0.1, 0.05], [1, 1], [0.9, 1.1], [1.2, 0.8]]
    surrogate = built(
        2, 2, noise_std=0.4, moments="raw", variance="trace", scale=1.0, hidden=2
    ).double()
    set_weights(surrogate, torch.eye(2), 0.5 * torch.eye(2), torch.ones(1, 2))
    return surrogate, torch.tensor(z, dtype=torch.float64), torch.tensor([0, 0, 0, 1, 1, 1])


def test_worked_example_of_attention():
    surrogate, z, y = worked_classes()
    assert surrogate(z, y).item() == pytest.approx(0.219210, abs=5e-7)
    assert surrogate(z[:3], y[:3]).item() == 0
    assert surrogate(z[3:], y[3:]).item() == pytest.approx(0.438419, abs=5e-7)
    sizes = [1 / (0.318038**2 + 0.371247**2 + 0.310714**2)]
    sizes += [1 / (0.335046**2 + 0.334010**2 + 0.330944**2)]
    surrogate(z, y)
    assert surrogate.log()["effective_sample_size"] == pytest.approx(sum(sizes) / 2, rel=1e-5)


def test_worked_example_of_attention_linear_gate_gives_the_variances():
    surrogate, z, y = worked_classes()
    surrogate.gate = "linear"
    assert surrogate(z[:3], y[:3]).item() == pytest.approx(0.017809, abs=5e-7)
    assert surrogate(z[3:], y[3:]).item() == pytest.approx(0.031006, abs=5e-7)


@pytest.mark.parametrize(("gate", "expected"), [("linear", 0.0125), ("log", 0)])
def test_worked_example_of_the_squared_norm(gate, expected):
    """The first worked example: three classes, tau = .05, the same weight for every sample."""
    z = torch.tensor([[0, 0], [0.2, 0.1], [1, 1], [1.2, 1.1], [1, -1], [0.8, -0.9]]).double()
    surrogate = built(
        3, 2, noise_std=0.4**0.5, moments="raw", variance="trace", gate=gate, scale=1.0, hidden=2
    ).double()
    set_weights(surrogate, torch.eye(2), torch.eye(2), torch.zeros(1, 2))
    for c in range(3):
        pair = slice(2 * c, 2 * c + 2)
        assert surrogate(z[pair], torch.tensor([c, c])).item() == pytest.approx(expected)
    assert surrogate(z, torch.arange(6) // 2).item() == pytest.approx(expected)


def test_worked_example_of_the_squared_norm_weighted():
    """Weights (.7, .3) on the first class: the scores differ by log(.7 / .3)."""
    z = torch.tensor([[0, 0], [0.2, 0.1]]).double()
    surrogate = built(
        1, 2, noise_std=0.4, moments="raw", variance="trace", gate="linear", scale=1.0, hidden=1
    ).double()
    score = torch.tensor(0.2).double().tanh() * torch.tensor(0.0).sigmoid()
    falling = torch.tensor(0.3 / 0.7).double().log() / score
    set_weights(surrogate, [[1.0, 0.0]], [[0.0, 0.0]], falling.reshape(1, 1))
    assert surrogate(z, torch.tensor([0, 0])).item() == pytest.approx(0.0105)


def centres_of(x, y):
    """The mean of each sample's class."""
    return torch.stack([x[y == label].mean(0) for label in y])


def under_contraction(surrogate, x, y, shares):
    """Penalties where the distances to the class centres are these shares of what they are."""
    centres = centres_of(x, y)
    return [surrogate(centres + t * (x - centres), y).item() for t in shares]


def outward(surrogate, x, y):
    """Slope of the penalty along the way out from the class's centre, for each larger class."""
    _, (slope,) = value_and_gradient(lambda x: surrogate(x, y), x)
    along = (slope * (x - centres_of(x, y))).sum(1)
    return [along[y == c].sum().item() for c in y.unique() if (y == c).sum() > 1]


@pytest.mark.parametrize("name", ["balanced", "unequal", "wide"])
@pytest.mark.parametrize("variance", ["diagonal", "trace"])
def test_raw_features_are_pulled_to_their_class_centre(name, variance):
    z, y, num_classes = batch(name)
    surrogate = built(num_classes, z.shape[1], moments="raw", variance=variance)
    values = under_contraction(surrogate, z, y, (1.5, 1, 0.5, 0.1, 0.02))
    assert values[-2] > 0
    assert values == sorted(values, reverse=True)
    assert values[-1] < 0.2 * values[0]
    assert min(outward(surrogate, z, y)) > 0


@pytest.mark.parametrize("name", ["balanced", "unequal", "wide"])
def test_layernorm_removes_the_scale_but_the_shapes_are_pulled_together(name):
    """LayerNorm divides each sample by its own spread over the dimensions, so no scale is left.

    (To within its eps of 1e-5: the features here are large beside it.) What contracts is the
    pattern of a sample, its normalised features, toward the mean pattern of its class.
    """
    z, y, num_classes = batch(name)
    z = 1e3 * z.double()
    surrogate = built(num_classes, z.shape[1]).double()
    value = surrogate(z, y).item()
    assert surrogate(10 * z, y).item() == pytest.approx(value, rel=1e-6)
    assert surrogate(0.1 * z, y).item() == pytest.approx(value, rel=1e-6)
    patterns = torch.nn.functional.layer_norm(z, z.shape[-1:])
    values = under_contraction(surrogate, patterns, y, (1, 0.7, 0.4, 0.1))
    assert values == sorted(values, reverse=True)
    assert values[-1] < 0.5 * values[0]
    assert min(outward(surrogate, patterns, y)) > 0


def test_a_collapsed_attention_does_not_pull():
    """The pull needs an attention that is spread out; here it sits on one sample of each class.

    The variance is then 0 however far the others are, and contraction brings them into view.
    """
    z, y, num_classes = batch("balanced")
    surrogate = built(num_classes, z.shape[1], moments="raw")
    with torch.no_grad():
        surrogate.w.weight.mul_(1e4)
    assert surrogate(z, y) == 0
    assert surrogate.log()["effective_sample_size"] == pytest.approx(1, abs=0.01)
    assert under_contraction(surrogate, z, y, [0.2])[0] > 0.01


def test_with_layernorm_the_noise_does_not_enter_the_gradient():
    z, y, num_classes = batch("balanced")
    quiet, loud = (built(num_classes, 8, noise_std) for noise_std in (0.01, 0.05))
    quiet_value, quiet_gradient = value_and_gradient(lambda z: quiet(z, y), z)
    loud_value, loud_gradient = value_and_gradient(lambda z: loud(z, y), z)
    assert quiet_value > loud_value
    torch.testing.assert_close(quiet_gradient, loud_gradient)


def gradients_of(surrogate_grad):
    z, y, num_classes = batch("unequal")
    surrogate = built(num_classes, z.shape[1], surrogate_grad=surrogate_grad).double()
    return value_and_gradient(lambda z: surrogate(z, y), z.double(), *weights(surrogate))


def test_stop_and_ascend_change_the_gradient_of_the_attention_only():
    value, (at_z, *descending) = gradients_of("descend")
    for mode, factor in (("stop", 0), ("ascend", -1)):
        other, (other_at_z, *others) = gradients_of(mode)
        assert torch.equal(other, value)
        assert torch.equal(other_at_z, at_z)
        for down, slope in zip(descending, others, strict=True):
            assert down.abs().max() > 0
            torch.testing.assert_close(slope, factor * down, rtol=0, atol=0)


@pytest.mark.parametrize(("mode", "sign"), [("descend", -1), ("stop", 0), ("ascend", 1)])
def test_training_the_attention_moves_the_penalty_its_way(mode, sign):
    z, y, num_classes = batch("unequal")
    surrogate = built(num_classes, z.shape[1], surrogate_grad=mode)
    optimiser = torch.optim.SGD(surrogate.parameters(), lr=0.5)
    before = surrogate(z, y).detach()
    z.requires_grad_()
    for _ in range(20):
        optimiser.zero_grad()
        surrogate(z, y).backward()
        optimiser.step()
    change = surrogate(z, y).detach() - before
    assert torch.sign(change) == sign


@pytest.mark.parametrize(("dim", "width"), [(4, 64), (512, 128), (4096, 512)])
def test_attention_width(dim, width):
    surrogate = built(2, dim)
    assert {name: tuple(p.shape) for name, p in surrogate.named_parameters()} == {
        "V.weight": (width, dim),
        "U.weight": (width, dim),
        "w.weight": (1, width),
    }


def test_restored_state_gives_the_same_value():
    z, y, num_classes = batch("unequal")
    first, second = (built(num_classes, z.shape[1], seed=seed) for seed in (0, 1))
    assert not torch.equal(first(z, y), second(z, y))
    second.load_state_dict(first.state_dict())
    assert torch.equal(first(z, y), second(z, y))


def test_effective_sample_size_is_the_class_size_under_equal_weights_and_falls_to_one():
    z, y, num_classes = batch("balanced")
    surrogate = built(num_classes, z.shape[1], hidden=1)
    torch.nn.init.zeros_(surrogate.w.weight)
    surrogate(z, y)
    assert surrogate.log()["effective_sample_size"] == pytest.approx(4)
    torch.nn.init.constant_(surrogate.w.weight, 1e4)
    surrogate(z, y)
    assert surrogate.log()["effective_sample_size"] == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("moments", "batch"),
        ("variance", "full"),
        ("gate", "exp"),
        ("surrogate_grad", "up"),
        ("scale", 0.0),
        ("hidden", 0),
        ("var_threshold", -1.0),
        ("noise_std", -0.1),
    ],
)
def test_bad_options_are_named(option, value):
    with pytest.raises(ValueError, match=option):
        GatedAttention(**{"dim": 4, "num_classes": 2, "noise_std": 0.1, option: value})
