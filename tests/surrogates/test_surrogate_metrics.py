"""`task_aware` and `image_aware` against loops in float64, their limits, and what they leave."""

import numpy as np
import pytest
import torch
from logdet_references import CLASSES, DIM, Gaussians, assert_step, batches
from scipy.linalg import sqrtm
from surrogate_batches import NOISE_STD, assert_near, built, value_and_gradient
from torch import Tensor


def metric(rank: int = 2, dim: int = DIM, seed: int = 5) -> Tensor:
    """What a server uses, or shows the image, along `rank` directions of unequal importance."""
    rows = torch.randn(rank, dim, generator=torch.Generator().manual_seed(seed)).double()
    rows *= torch.arange(1, rank + 1).unsqueeze(1)
    return rows.T @ rows


def spared(f: Tensor, kappa: float) -> Tensor:
    """M by its formula."""
    unit = torch.eye(len(f), dtype=f.dtype)
    return kappa * torch.linalg.inv(f * len(f) / f.trace() + kappa * unit)


class TaskAware(Gaussians):
    """The running Gaussians, with the pull and the tangent along M^1/2 Sigma M^1/2."""

    def __init__(self, f: Tensor, kappa: float = 0.3, **options):
        super().__init__(**options)
        self.kappa = kappa
        self.learn(f)

    def learn(self, f: Tensor) -> None:
        # By an algorithm other than the surrogate's.
        self.root = torch.tensor(np.real(sqrtm(spared(f, self.kappa).numpy())))

    def pull(self, c: int) -> Tensor:
        return self.root @ super().pull(c) @ self.root

    def at(self, c: int) -> Tensor:
        plain = Gaussians.pull(self, c)
        return super().at(c) + ((self.pull(c) - plain) @ self.references[c]).trace()


class ImageAware(Gaussians):
    """The running Gaussians, whose pull goes along G in part."""

    def __init__(self, g: Tensor, share: float = 0.67, **options):
        super().__init__(**options)
        self.g, self.share = g, share

    def pull(self, c: int) -> Tensor:
        plain, along = super().pull(c), (self.g @ self.references[c]).trace()
        if along <= 1e-9 * NOISE_STD**2 * self.g.trace():
            return plain
        scale = (plain @ self.references[c]).trace() / along
        return (1 - self.share) * plain + self.share * scale * self.g


KINDS = {"task_aware": TaskAware, "image_aware": ImageAware}
either = pytest.mark.parametrize("name", KINDS)


def pair(name, learned=None, **options):
    """The surrogate and its reference, both with the metric."""
    learned = metric() if learned is None else learned
    options = {"momentum": 0.9, "refresh": 3, **options}
    surrogate = built(name, CLASSES, DIM, **options)
    surrogate.learn(learned)
    return surrogate, KINDS[name](learned, **options)


def answer(surrogate, z: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    value, (gradient,) = value_and_gradient(lambda z: surrogate(z, y), z)
    return value, gradient


@pytest.mark.parametrize(
    ("name", "option"),
    [
        *(("task_aware", {"kappa": kappa}) for kappa in (0.1, 0.3, 1.0)),
        *(("image_aware", {"share": share}) for share in (0.5, 0.9, 1.0)),
    ],
)
@pytest.mark.parametrize("refresh", [1, 3, 100])
@pytest.mark.parametrize("shrinkage", [0.0, 0.2])
@pytest.mark.parametrize(("dtype", "rel"), [(torch.float64, 1e-9), (torch.float32, 1e-6)])
def test_every_value_and_gradient_equal_the_loops(name, option, refresh, shrinkage, dtype, rel):
    surrogate, reference = pair(name, refresh=refresh, shrinkage=shrinkage, **option)
    for z, y in batches(dtype):
        assert_step(surrogate, reference, z, y, rel)


@pytest.mark.parametrize(
    ("name", "options", "learned"),
    [
        ("task_aware", {}, None),
        ("task_aware", {}, torch.zeros(DIM, DIM)),
        ("image_aware", {"share": 0.0}, metric()),
        ("image_aware", {"share": 0.9}, torch.zeros(DIM, DIM)),
    ],
)
def test_a_metric_that_says_nothing_leaves_logdet_to_the_bit(name, options, learned):
    surrogate, plain = (
        built(each, CLASSES, DIM, refresh=3, **given)
        for each, given in ((name, options), ("logdet", {}))
    )
    if learned is not None:
        surrogate.learn(learned)
    for z, y in batches():
        for found, expected in zip(answer(surrogate, z, y), answer(plain, z, y), strict=True):
            assert torch.equal(found, expected)


@either
@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_the_scale_of_the_metric_does_not_matter(name, scale):
    z, y = next(batches(torch.float64))
    usual, scaled = (answer(pair(name, factor * metric())[0], z, y) for factor in (1.0, scale))
    assert_near(scaled[0], usual[0], 1e-9)
    assert_near(scaled[1], usual[1], 1e-9)


@either
def test_a_new_metric_acts_from_the_next_factorisation_on(name):
    surrogate, reference = pair(name, refresh=2)
    for step, (z, y) in enumerate(batches(torch.float64)):
        if step == 3:
            surrogate.learn(metric(seed=9))
        if step == 4:
            _, other = pair(name, metric(seed=9), refresh=2)
            reference.root, reference.g = getattr(other, "root", None), getattr(other, "g", None)
        assert_step(surrogate, reference, z, y, 1e-9)


def test_what_shows_nothing_is_not_pulled():
    """Pixels that follow two of six features: the other four keep their spread, whatever it is.

    Two samples of one class per axis, far from the mean in proportion to the axis's number.
    """
    g = torch.zeros(DIM, DIM)
    g[1, 1], g[4, 4] = 3.0, 1.0
    surrogate = built("image_aware", 1, DIM, share=1.0)
    surrogate.learn(g)
    reach = torch.diag(0.1 * torch.arange(1, DIM + 1)).double()
    z, y = torch.cat([reach, -reach]), torch.zeros(2 * DIM, dtype=torch.long)
    gradient = answer(surrogate, z, y)[1]
    assert (gradient[:, [0, 2, 3, 5]] == 0).all()
    # Per distance from the mean, as strong as the squared change of the pixels.
    strengths = gradient.diagonal() / z[:DIM].diagonal()
    assert float(strengths[1] / strengths[4]) == pytest.approx(3.0)
    assert strengths[1] > 0


def test_notes_of_task_aware():
    surrogate, reference = pair("task_aware", refresh=100)
    for z, y in batches(torch.float64):
        surrogate(z, y)
        reference.see(z, y)
    notes, f = surrogate.log(), metric()
    assert notes["spared"] == pytest.approx(1 - float(spared(f, 0.3).trace()) / DIM)
    rank = float(f.trace() / torch.linalg.matrix_norm(f, 2))
    assert notes["effective_rank"] == pytest.approx(rank)
    changes = [(reference.change(c).item(), reference.at(c).item()) for c in y.unique().tolist()]
    stale = [abs(change) / (at + change) for change, at in changes]
    assert notes["stale"] == pytest.approx(sum(stale) / len(stale), rel=1e-6)


def test_the_rank_of_the_image_is_noted():
    surrogate = built("image_aware", CLASSES, DIM)
    z, y = next(batches())
    surrogate(z, y)
    assert surrogate.log()["image_rank"] == 0
    surrogate.learn(torch.diag(torch.tensor([4.0, 4.0, 2.0, 0, 0, 0])))
    surrogate(z, y)
    assert surrogate.log()["image_rank"] == pytest.approx(2.5)
