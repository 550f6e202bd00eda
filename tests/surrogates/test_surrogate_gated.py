import pytest
import surrogate_references as reference
import torch
from surrogate_batches import (
    BATCHES,
    batch,
    built,
    centres_of,
    compare,
    outward,
)


@pytest.mark.parametrize("name", BATCHES)
@pytest.mark.parametrize("moments", ["layernorm", "raw"])
@pytest.mark.parametrize("variance", ["diagonal", "trace"])
@pytest.mark.parametrize("gate", ["log", "linear"])
def test_value_and_gradient_equal_the_loops(name, moments, variance, gate):
    z, y, num_classes = batch(name)
    surrogate = built(
        "gated", num_classes, z.shape[1], moments=moments, variance=variance, gate=gate, hidden=7
    )
    compare(reference.gated, surrogate.double(), z.double(), y, 1e-10)
    compare(reference.gated, surrogate.float(), z, y, 1e-5)


@pytest.mark.parametrize(("gate", "active"), [("log", 0.75), ("linear", 1)])
def test_classes_and_active_hinges_are_counted(gate, active):
    """Of two classes with two samples or more, one has half of its variances under the ceiling."""
    z = torch.tensor([[0.0, 0.0], [1.0, 1e-3], [0.0, 0.0], [1.0, 1.0], [0.3, 0.2]])
    surrogate = built("gated", 5, 2, moments="raw", gate=gate)
    surrogate(z, torch.tensor([3, 3, 1, 1, 0]))
    assert surrogate.log()["classes"] == 2
    assert surrogate.log()["active"] == active


# The second worked example: two classes, V = I, U = I / 2, w = (1, 1), tau = .02 + 1e-6.
@pytest.mark.parametrize(
    ("gate", "first", "second"), [("log", 0.0, 0.438419), ("linear", 0.017809, 0.031006)]
)
def test_worked_example_of_attention(gate, first, second):
    points = [[0, 0], [0.2, 0.1], [-0.1, 0.05], [1, 1], [0.9, 1.1], [1.2, 0.8]]
    z = torch.tensor(points, dtype=torch.float64)
    options = {"moments": "raw", "variance": "trace", "scale": 1.0, "hidden": 2}
    surrogate = built("gated", 2, 2, gate=gate, noise_std=0.4, **options).double()
    surrogate.load_state_dict(
        {"V.weight": torch.eye(2), "U.weight": 0.5 * torch.eye(2), "w.weight": torch.ones(1, 2)}
    )
    y = torch.tensor([0, 0, 0, 1, 1, 1])
    assert surrogate(z[:3], y[:3]).item() == pytest.approx(first, abs=5e-7)
    assert surrogate(z[3:], y[3:]).item() == pytest.approx(second, abs=5e-7)
    assert surrogate(z, y).item() == pytest.approx((first + second) / 2, abs=5e-7)
    sizes = [1 / (0.318038**2 + 0.371247**2 + 0.310714**2)]
    sizes += [1 / (0.335046**2 + 0.334010**2 + 0.330944**2)]
    assert surrogate.log()["effective_sample_size"] == pytest.approx(sum(sizes) / 2, rel=1e-5)


@pytest.mark.parametrize("name", ["balanced", "unequal", "wide"])
@pytest.mark.parametrize("variance", ["diagonal", "trace"])
def test_raw_features_are_pulled_to_their_class_centre(name, variance):
    z, y, num_classes = batch(name)
    surrogate = built("gated", num_classes, z.shape[1], moments="raw", variance=variance)
    values = under_contraction(surrogate, z, y, (1.5, 1, 0.5, 0.1, 0.02))
    assert values[-2] > 0
    assert values == sorted(values, reverse=True)
    assert values[-1] < 0.2 * values[0]
    assert min(outward(surrogate, z, y, smallest=2)) > 0


def test_a_collapsed_attention_does_not_pull():
    """The pull needs an attention that is spread out; here it sits on one sample of each class.

    The variance is then 0 however far the others are, and contraction brings them into view.
    """
    z, y, num_classes = batch("balanced")
    surrogate = built("gated", num_classes, z.shape[1], moments="raw")
    with torch.no_grad():
        surrogate.w.weight.mul_(1e4)
    assert surrogate(z, y) == 0
    assert surrogate.log()["effective_sample_size"] == pytest.approx(1, abs=0.01)
    assert under_contraction(surrogate, z, y, [0.2])[0] > 0.01


def under_contraction(surrogate, x, y, shares):
    """Penalties where the distances to the class centres are these shares of what they are."""
    centres = centres_of(x, y)
    return [surrogate(centres + t * (x - centres), y).item() for t in shares]


@pytest.mark.parametrize(("dim", "width"), [(4, 64), (512, 128), (4096, 512)])
def test_attention_width(dim, width):
    surrogate = built("gated", 2, dim)
    assert {name: tuple(p.shape) for name, p in surrogate.named_parameters()} == {
        "V.weight": (width, dim),
        "U.weight": (width, dim),
        "w.weight": (1, width),
    }
