import pytest
import surrogate_references as reference
import torch
from mixture_references import loaded, stored
from surrogate_batches import BATCHES, assert_near, batch, value_and_gradient

from cemlib.surrogates.clustering import Clustering

NOISE_STD = 0.025


def by_loops(surrogate, z, y, num_train):
    return reference.clustering(
        z,
        y,
        *stored(surrogate),
        num_train=num_train,
        noise_std=NOISE_STD,
        gate=surrogate.gate,
        gamma=surrogate.gamma,
    )


@pytest.mark.parametrize("name", BATCHES)
@pytest.mark.parametrize("clusters", [1, 3])
@pytest.mark.parametrize("gate", ["log", "linear"])
@pytest.mark.parametrize("num_train", [10, 3000])
def test_value_and_gradient_equal_the_loops(name, clusters, gate, num_train):
    z, y, num_classes = batch(name)
    surrogate = loaded(
        Clustering, num_classes, z.shape[1], clusters, num_train=num_train, gate=gate
    )
    value, (gradient,) = value_and_gradient(lambda z: surrogate(z, y), z)
    expected, (slope,) = value_and_gradient(
        lambda z: by_loops(surrogate, z, y, num_train), z.double()
    )
    assert_near(value, expected, 1e-5)
    assert_near(gradient, slope, 1e-5)


def test_equal_features_equal_the_loops():
    y = torch.tensor([0, 0, 1, 1, 2])
    z = torch.full((5, 8), 0.3)
    surrogate = loaded(Clustering, 3, 8, 2, num_train=3000)
    value, (gradient,) = value_and_gradient(lambda z: surrogate(z, y), z)
    expected, (slope,) = value_and_gradient(lambda z: by_loops(surrogate, z, y, 3000), z.double())
    assert_near(value, expected, 1e-5)
    assert_near(gradient, slope, 1e-5)


def test_gradient_has_the_closed_form():
    """dR/dz_i = 20 / (L_c D |U|) (z_i - mu) / (v + 0.01) where a < 1 and v is above the ceiling."""
    z, y, num_classes = batch("balanced")
    dim, num_train, stored = z.shape[1], 4000, 0.02
    class_size = num_train / num_classes
    means = torch.full((num_classes, 1, dim), 0.5, dtype=torch.float64)
    surrogate = Clustering(
        dim=dim, num_classes=num_classes, noise_std=NOISE_STD, clusters=1, num_train=num_train
    ).double()
    surrogate.load_statistics(
        means, torch.ones(num_classes, 1), torch.full((num_classes, 1), stored)
    )
    z = z.double()
    _, (gradient,) = value_and_gradient(lambda z: surrogate(z, y), z)
    for i, c in enumerate(y.tolist()):
        members = z[y == c]
        a = 10 * len(members) / class_size
        v = a * (members - 0.5).square().mean() + (1 - a) * torch.tensor(stored).double()
        expected = 20 / (class_size * dim * num_classes) * (z[i] - 0.5) / (v + 0.01)
        torch.testing.assert_close(gradient[i], expected, rtol=1e-7, atol=0)


def test_one_cluster_by_hand():
    """n = 2 of N / C = 40 images: a = .5, v = .5 * .04 + .5 * .02 = .03."""
    surrogate = Clustering(dim=2, num_classes=2, noise_std=0.2, clusters=1, num_train=80)
    surrogate.load_statistics(
        torch.tensor([[[0.0, 0.0]], [[9.0, 9.0]]]), torch.ones(2, 1), torch.full((2, 1), 0.02)
    )
    z, y = torch.tensor([[0.2, 0.2], [-0.2, 0.2]]), torch.tensor([0, 0])
    ceiling = 0.125 * 0.2**2
    expected = torch.tensor((0.03 + 0.01) / (ceiling + 0.01)).log()
    torch.testing.assert_close(surrogate(z, y), expected)


@pytest.mark.parametrize("options", [{}, {"variance": "diagonal"}, {"form": "batch"}])
def test_contracting_features_lowers_the_penalty(options):
    z, y, num_classes = batch("balanced")
    surrogate = Clustering(
        dim=z.shape[1],
        num_classes=num_classes,
        noise_std=NOISE_STD,
        clusters=1,
        num_train=40,
        **options,
    )
    surrogate.fit(z, y)
    centres = surrogate.statistics()["means"][y, 0]
    values = [surrogate(centres + t * (z - centres), y).item() for t in (1.5, 1, 0.5, 0.2)]
    assert values == sorted(values, reverse=True)
    assert values[-1] < 0.8 * values[0]
    _, (gradient,) = value_and_gradient(lambda z: surrogate(z, y), z)
    assert ((-gradient * (centres - z)).sum(1) > 0).all()


@pytest.mark.parametrize("options", [{}, {"variance": "diagonal"}, {"form": "batch"}])
def test_before_the_first_fit_the_penalty_is_zero_and_attached(options):
    z, y, num_classes = batch("balanced")
    surrogate = Clustering(dim=z.shape[1], num_classes=num_classes, noise_std=NOISE_STD, **options)
    z.requires_grad_()
    value = surrogate(z, y)
    value.backward()
    assert value == 0
    assert torch.equal(z.grad, torch.zeros_like(z))
    assert (surrogate.log()["classes"], surrogate.log()["active"]) == (0, 0)


def test_a_cluster_of_weight_zero_contributes_nothing():
    surrogate = Clustering(dim=2, num_classes=1, noise_std=NOISE_STD, clusters=2, num_train=10)
    surrogate.load_statistics(
        torch.tensor([[[0.0, 0.0], [1.0, 1.0]]]),
        torch.tensor([[1.0, 0.0]]),
        torch.zeros(1, 2),
    )
    z = torch.tensor([[0.9, 0.8], [0.7, 1.0]], requires_grad=True)
    value = surrogate(z, torch.tensor([0, 0]))
    value.backward()
    assert value == 0
    assert torch.equal(z.grad, torch.zeros(2, 2))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("variance", ["scalar", "diagonal"])
def test_restored_state_continues_bit_for_bit(dtype, variance):
    generator = torch.Generator().manual_seed(3)
    features = [torch.rand(60, 6, generator=generator, dtype=dtype) for _ in range(3)]
    y = torch.arange(60) % 4
    first, second = (
        Clustering(dim=6, num_classes=4, noise_std=NOISE_STD, clusters=3, variance=variance).to(
            dtype
        )
        for _ in range(2)
    )
    first.fit(features[0], y)
    second.load_state_dict(first.state_dict())
    assert torch.equal(first(features[1], y), second(features[1], y))
    first.fit(features[2], y)
    second.fit(features[2], y)
    assert all(
        torch.equal(values, second.statistics()[name])
        for name, values in first.statistics().items()
    )
    assert torch.equal(first(features[1], y), second(features[1], y))


def test_diagonal_variances_are_averaged():
    surrogate = Clustering(dim=3, num_classes=1, noise_std=NOISE_STD, clusters=1, num_train=5)
    surrogate.load_statistics(
        torch.zeros(1, 1, 3), torch.ones(1, 1), torch.tensor([[[0.1, 0.2, 0.6]]])
    )
    torch.testing.assert_close(surrogate.statistics()["variances"], torch.tensor([[0.3]]))


def test_statistics_of_a_wrong_shape_are_refused():
    surrogate = Clustering(dim=3, num_classes=2, noise_std=NOISE_STD, clusters=2, num_train=5)
    with pytest.raises(ValueError, match=r"weights has shape \(2, 3\), expected \(2, 2\)"):
        surrogate.load_statistics(torch.zeros(2, 2, 3), torch.ones(2, 3), torch.zeros(2, 2))


def test_statistics_without_the_number_of_training_images_are_refused():
    surrogate = Clustering(dim=3, num_classes=2, noise_std=NOISE_STD, clusters=2)
    with pytest.raises(ValueError, match="num_train"):
        surrogate.load_statistics(torch.zeros(2, 2, 3), torch.ones(2, 2), torch.zeros(2, 2))


def test_log_counts_active_hinges_and_empty_clusters():
    surrogate = Clustering(dim=1, num_classes=2, noise_std=0.4, clusters=2, num_train=2)
    surrogate.load_statistics(
        torch.tensor([[[0.0], [5.0]], [[0.0], [5.0]]]),
        torch.tensor([[0.5, 0.5], [1.0, 0.0]]),
        torch.zeros(2, 2),
    )
    # Ceiling .02: clusters (0, 0) and (1, 0) hold .0099 and .99; only the second is above.
    value = surrogate(torch.tensor([[0.1], [1.0]]), torch.tensor([0, 1]))
    notes = surrogate.log()
    assert notes["value"] == pytest.approx(float(value))
    assert notes["active"] == 0.5
    assert notes["empty"] == 0.25
    assert notes["variance"] == pytest.approx(0.99 * (0.01 + 1) / 2)
    assert notes["classes"] == 2


def test_classes_count_where_a_cluster_of_the_batch_has_a_weight():
    """Class 1's only sample is nearest to a cluster of weight 0; class 2 is not in the batch."""
    surrogate = Clustering(dim=1, num_classes=3, noise_std=0.4, clusters=2, num_train=2)
    surrogate.load_statistics(
        torch.tensor([[0.0], [5.0]]).expand(3, 2, 1),
        torch.tensor([[0.5, 0.5], [1.0, 0.0], [0.5, 0.5]]),
        torch.zeros(3, 2),
    )
    surrogate(torch.tensor([[0.1], [4.0], [5.0]]), torch.tensor([0, 0, 1]))
    assert surrogate.log()["classes"] == 1
