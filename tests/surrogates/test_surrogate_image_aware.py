"""`image_aware` against loops in float64, its limits, and what its pull leaves alone."""

import pytest
import torch
from logdet_references import Gaussians, log_det
from surrogate_batches import assert_near, value_and_gradient
from surrogate_references import classes_of
from torch import Tensor

from cemlib.surrogates.image_aware import ImageAware
from cemlib.surrogates.logdet import LogDet

NOISE_STD, DIM, CLASSES = 0.025, 6, 4
SEQUENCE = [[0, 0, 1, 1, 1, 2], [1, 1, 1], [3], [0, 2, 2, 0, 3], [2] * 14 + [1], [3, 3, 0, 1, 2]]


def built(num_classes=CLASSES, **options):
    return ImageAware(dim=DIM, num_classes=num_classes, noise_std=NOISE_STD, **options)


def plain(num_classes=CLASSES, **options):
    return LogDet(dim=DIM, num_classes=num_classes, noise_std=NOISE_STD, **options)


def batches(seed=0):
    generator = torch.Generator().manual_seed(seed)
    centres = torch.rand(CLASSES, DIM, generator=generator)
    for step, labels in enumerate(SEQUENCE):
        y = torch.tensor(labels)
        yield centres[y] + 0.03 * step * torch.randn(len(y), DIM, generator=generator), y


def shown(seed=5, pixels=2) -> Tensor:
    """G of a linear reconstruction of so many pixels."""
    weights = torch.randn(DIM, pixels, generator=torch.Generator().manual_seed(seed)).double()
    return weights @ weights.T / pixels


def answer(surrogate, z: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    value, (gradient,) = value_and_gradient(lambda z: surrogate(z, y), z)
    return value, gradient


class Shown(Gaussians):
    """The running Gaussians, whose pull goes along G in part."""

    def __init__(self, g: Tensor, share: float, **options):
        super().__init__(CLASSES, DIM, NOISE_STD, **options)
        self.g, self.share = g, share

    def tangent(self, sigma: Tensor) -> tuple[Tensor, ...]:
        return *super().tangent(sigma), sigma

    def pull(self, c: int) -> Tensor:
        """Q_c."""
        _, precision, shrunk_ref, sigma_ref = self.tangents[c]
        unit, along = torch.eye(DIM, dtype=torch.float64), (self.g @ sigma_ref).trace()
        level = self.shrinkage * precision.trace() / DIM
        own = (1 - self.shrinkage) * precision + level * unit
        if along <= 1e-9 * NOISE_STD**2 * self.g.trace():
            return own
        scale = (precision @ shrunk_ref).trace() / along
        return (1 - self.share) * own + self.share * scale * self.g

    def value(self, y: Tensor) -> Tensor:
        total = torch.zeros((), dtype=torch.float64)
        for positions in classes_of(y):
            c = int(y[positions[0]])
            at, _, _, sigma_ref = self.tangents[c]
            change = (self.pull(c) @ (self.moments(c)[1] - sigma_ref)).trace()
            total += len(positions) / len(y) * 0.5 * (at + change)
        return total / DIM

    def gradient(self, z: Tensor, y: Tensor) -> Tensor:
        pulls = [
            self.pull(label) @ (row - self.moments(label)[0])
            for row, label in zip(z.detach().double(), y.tolist(), strict=True)
        ]
        return torch.stack(pulls) / z.numel()


@pytest.mark.parametrize("share", [0.5, 0.9, 1.0])
@pytest.mark.parametrize("refresh", [1, 3, 100])
@pytest.mark.parametrize("shrinkage", [0.0, 0.2])
@pytest.mark.parametrize(("dtype", "rel"), [(torch.float64, 1e-9), (torch.float32, 1e-6)])
def test_every_value_and_gradient_equal_the_loops(share, refresh, shrinkage, dtype, rel):
    options = {"momentum": 0.9, "refresh": refresh, "shrinkage": shrinkage}
    surrogate, reference = built(share=share, **options), Shown(shown(), share, **options)
    surrogate.learn(shown())
    for z, y in batches():
        value, gradient = answer(surrogate, z.to(dtype), y)
        reference.see(z.to(dtype), y)
        assert_near(value, reference.value(y), rel)
        assert_near(gradient, reference.gradient(z.to(dtype), y), rel)


@pytest.mark.parametrize("options", [{"share": 0.0}, {"share": 0.9}])
def test_no_share_and_an_image_that_does_not_show_are_logdet_to_the_bit(options):
    surrogate, other = built(refresh=3, **options), plain(refresh=3)
    surrogate.learn(torch.zeros(DIM, DIM) if options["share"] else shown())
    for z, y in batches():
        for found, expected in zip(answer(surrogate, z, y), answer(other, z, y), strict=True):
            assert torch.equal(found, expected)


def test_the_value_at_a_renewal_is_the_bound_of_the_class_gaussians():
    surrogate = built(refresh=1)
    surrogate.learn(shown())
    reference = Shown(shown(), 0.67, momentum=None, refresh=1)
    for z, y in batches():
        value = surrogate(z.double(), y)
        reference.see(z, y)
        bound = sum(
            len(rows) / len(y) * 0.5 * log_det(reference.moments(int(y[rows[0]]))[1], NOISE_STD)
            for rows in classes_of(y)
        )
        assert_near(value, bound / DIM, 1e-9)


@pytest.mark.parametrize("share", [0.3, 1.0])
def test_the_whole_pull_is_that_of_logdet(share):
    """tr(Q Sigma) = tr(P Sigma) in every class that has been seen."""
    surrogate, other = built(share=share, refresh=1), plain(refresh=1)
    surrogate.learn(shown())
    for z, y in batches():
        surrogate(z.double(), y)
        other(z.double(), y)
        found, expected = (
            torch.einsum("cij,cij->c", each.precisions, each.covariances)
            for each in (surrogate, other)
        )
        assert_near(found, expected, 1e-9)


def test_what_shows_nothing_is_not_pulled():
    """Pixels that follow two of six features: the other four keep their spread, whatever it is."""
    g = torch.zeros(DIM, DIM)
    g[1, 1], g[4, 4] = 3.0, 1.0
    surrogate = built(1, share=1.0)
    surrogate.learn(g)
    reach = torch.diag(0.1 * torch.arange(1, DIM + 1)).double()
    z, y = torch.cat([reach, -reach]), torch.zeros(2 * DIM, dtype=torch.long)
    gradient = answer(surrogate, z, y)[1]
    hidden = [0, 2, 3, 5]
    assert (gradient[:, hidden] == 0).all()
    # Per distance from the mean, as strong as the squared change of the pixels.
    strengths = gradient.diagonal() / reach.diagonal()
    assert float(strengths[1] / strengths[4]) == pytest.approx(3.0)
    assert strengths[1] > 0


@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_the_scale_of_the_metric_does_not_matter(scale):
    z, y = next(batches())
    results = []
    for factor in (1.0, scale):
        surrogate = built()
        surrogate.learn(factor * shown())
        results.append(answer(surrogate, z.double(), y))
    assert_near(results[1][0], results[0][0], 1e-9)
    assert_near(results[1][1], results[0][1], 1e-9)


def history(surrogate, epochs):
    """Values and gradients of epochs, each begun with another metric."""
    results = []
    for epoch in epochs:
        surrogate.learn(shown(seed=epoch))
        surrogate.reseed(epoch)
        for z, y in batches(seed=epoch):
            value, gradient = answer(surrogate, z, y)
            results.append(torch.cat([value.reshape(1), gradient.flatten()]))
    return torch.cat(results)


def test_resuming_between_epochs_gives_the_same_bits():
    whole, first, second = (built(refresh=4) for _ in range(3))
    expected = history(whole, [1, 2, 3])
    start = history(first, [1, 2])
    second.load_state_dict(first.state_dict())
    assert set(first.state_dict()) == {"means", "covariances", "samples"}
    assert torch.equal(torch.cat([start, history(second, [3])]), expected)


def test_the_rank_of_the_metric_is_noted():
    surrogate = built()
    z, y = next(batches())
    surrogate(z, y)
    assert surrogate.log()["image_rank"] == 0
    surrogate.learn(torch.diag(torch.tensor([4.0, 4.0, 2.0, 0, 0, 0])))
    surrogate(z, y)
    assert surrogate.log()["image_rank"] == pytest.approx(2.5)


@pytest.mark.parametrize(
    ("option", "value", "allowed"),
    [
        ("share", -0.1, "in .0, 1."),
        ("share", 1.1, "in .0, 1."),
        ("share", float("nan"), "in .0, 1."),
        ("samples", 1, "at least 2"),
    ],
)
def test_options_out_of_range_are_named(option, value, allowed):
    with pytest.raises(ValueError, match=f"{option} is {value}; .*{allowed}"):
        built(**{option: value})
    with pytest.raises(ValueError, match=r"ImageAware: metric has shape \(3, 3\).*\(6, 6\)"):
        built().learn(torch.eye(3))
