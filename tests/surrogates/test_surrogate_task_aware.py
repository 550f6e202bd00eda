"""`task_aware` against loops in float64, its limits, and what its value bounds."""

import numpy as np
import pytest
import torch
from logdet_references import Gaussians, log_det
from scipy.linalg import sqrtm
from surrogate_batches import BATCHES, assert_near, batch, value_and_gradient
from surrogate_references import classes_of
from torch import Tensor

from cemlib.surrogates.logdet import LogDet
from cemlib.surrogates.task_aware import TaskAware

NOISE_STD, DIM, CLASSES = 0.025, 6, 4
SEQUENCE = [[0, 0, 1, 1, 1, 2], [1, 1, 1], [3], [0, 2, 2, 0, 3], [2] * 14 + [1], [3, 3, 0, 1, 2]]


def built(dim=DIM, num_classes=CLASSES, **options):
    return TaskAware(dim=dim, num_classes=num_classes, noise_std=NOISE_STD, **options)


def batches(seed=0):
    generator = torch.Generator().manual_seed(seed)
    centres = torch.rand(CLASSES, DIM, generator=generator)
    for step, labels in enumerate(SEQUENCE):
        y = torch.tensor(labels)
        yield centres[y] + 0.03 * step * torch.randn(len(y), DIM, generator=generator), y


def sensitivity(dim=DIM, rank=2, seed=5) -> Tensor:
    """What a server uses that looks at `rank` directions, of unequal importance."""
    rows = torch.randn(rank, dim, generator=torch.Generator().manual_seed(seed)).double()
    rows *= torch.arange(1, rank + 1).unsqueeze(1)
    return rows.T @ rows


def metric(f: Tensor, kappa: float) -> Tensor:
    """M by its formula."""
    unit = torch.eye(len(f), dtype=f.dtype)
    return kappa * torch.linalg.inv(f * len(f) / f.trace() + kappa * unit)


def root_of(f: Tensor, kappa: float) -> Tensor:
    """M^1/2, by an algorithm other than the surrogate's."""
    return torch.tensor(np.real(sqrtm(metric(f, kappa).numpy())))


class Spared(Gaussians):
    """The running Gaussians, with the pull and the tangent along M^1/2 Sigma M^1/2."""

    def __init__(self, root: Tensor, **options):
        super().__init__(CLASSES, DIM, NOISE_STD, **options)
        self.root = root

    def shrunk_pull(self, c: int) -> Tensor:
        precision, unit = self.tangents[c][1], torch.eye(DIM, dtype=torch.float64)
        level = self.shrinkage * precision.trace() / DIM
        return self.root @ ((1 - self.shrinkage) * precision + level * unit) @ self.root

    def value(self, y: Tensor) -> Tensor:
        total = torch.zeros((), dtype=torch.float64)
        for positions in classes_of(y):
            c = int(y[positions[0]])
            at, precision, sigma_ref = self.tangents[c]
            along = (self.shrunk_pull(c) @ self.moments(c)[1]).trace()
            change = along - (precision @ sigma_ref).trace()
            total += len(positions) / len(y) * 0.5 * (at + change)
        return total / DIM

    def gradient(self, z: Tensor, y: Tensor) -> Tensor:
        pulls = [
            self.shrunk_pull(label) @ (row - self.moments(label)[0])
            for row, label in zip(z.detach().double(), y.tolist(), strict=True)
        ]
        return torch.stack(pulls) / z.numel()

    def information(self, y: Tensor) -> Tensor:
        """The Gaussian bound of M^1/2 z + noise itself."""
        total = torch.zeros((), dtype=torch.float64)
        for positions in classes_of(y):
            sigma = self.root @ self.moments(int(y[positions[0]]))[1] @ self.root
            total += len(positions) / len(y) * 0.5 * log_det(sigma, NOISE_STD)
        return total / DIM


def pair(kappa=0.3, f=None, **options):
    """The surrogate and its reference, both with the metric."""
    f = sensitivity() if f is None else f
    options = {"momentum": 0.9, "refresh": 3, **options}
    surrogate = built(kappa=kappa, **options)
    surrogate.learn(f)
    return surrogate, Spared(root_of(f, kappa), **options)


def answer(surrogate, z: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    value, (gradient,) = value_and_gradient(lambda z: surrogate(z, y), z)
    return value, gradient


@pytest.mark.parametrize("kappa", [0.1, 0.3, 1.0])
@pytest.mark.parametrize("refresh", [1, 3, 100])
@pytest.mark.parametrize("shrinkage", [0.0, 0.2])
@pytest.mark.parametrize(("dtype", "rel"), [(torch.float64, 1e-9), (torch.float32, 1e-6)])
def test_every_value_and_gradient_equal_the_loops(kappa, refresh, shrinkage, dtype, rel):
    surrogate, reference = pair(kappa, refresh=refresh, shrinkage=shrinkage)
    for z, y in batches():
        value, gradient = answer(surrogate, z.to(dtype), y)
        reference.see(z.to(dtype), y)
        assert_near(value, reference.value(y), rel)
        assert_near(gradient, reference.gradient(z.to(dtype), y), rel)


@pytest.mark.parametrize("kappa", [1e9, float("inf")])
def test_an_infinite_kappa_is_logdet(kappa):
    surrogate = built(kappa=kappa, refresh=3, shrinkage=0.1)
    surrogate.learn(sensitivity())
    plain = LogDet(dim=DIM, num_classes=CLASSES, noise_std=NOISE_STD, refresh=3, shrinkage=0.1)
    for z, y in batches():
        for found, expected in zip(
            answer(surrogate, z.double(), y), answer(plain, z.double(), y), strict=True
        ):
            assert_near(found, expected, 1e-7)


@pytest.mark.parametrize("taught", [False, True])
def test_a_server_that_is_unknown_or_uses_nothing_leaves_logdet_to_the_bit(taught):
    surrogate = built(refresh=3)
    if taught:
        surrogate.learn(torch.zeros(DIM, DIM))
    plain = LogDet(dim=DIM, num_classes=CLASSES, noise_std=NOISE_STD, refresh=3)
    for z, y in batches():
        for found, expected in zip(answer(surrogate, z, y), answer(plain, z, y), strict=True):
            assert torch.equal(found, expected)
    assert surrogate.log()["spared"] == surrogate.log()["effective_rank"] == 0


@pytest.mark.parametrize("kappa", [0.1, 1.0])
def test_a_server_that_uses_all_directions_alike_scales_the_pull(kappa):
    surrogate = pair(kappa, f=7.0 * torch.eye(DIM))[0]
    plain = LogDet(dim=DIM, num_classes=CLASSES, noise_std=NOISE_STD, momentum=0.9, refresh=3)
    for z, y in batches():
        found, expected = answer(surrogate, z.double(), y)[1], answer(plain, z.double(), y)[1]
        assert_near(found, kappa / (1 + kappa) * expected, 1e-12)
    assert surrogate.log()["effective_rank"] == pytest.approx(DIM)
    assert surrogate.log()["spared"] == pytest.approx(1 / (1 + kappa))


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_the_scale_of_the_sensitivity_does_not_matter(scale):
    z, y = next(batches())
    expected, found = pair()[0](z.double(), y), pair(f=scale * sensitivity())[0](z.double(), y)
    assert_near(found, expected, 1e-9)


@pytest.mark.parametrize("name", BATCHES)
@pytest.mark.parametrize("rank", [1, 3])
def test_the_pull_per_distance_never_grows_along_what_the_server_uses(name, rank):
    """Neither is the metric above 1 anywhere, nor u^T M^1/2 P M^1/2 u above u^T P u."""
    z, y, num_classes = batch(name)
    dim = z.shape[1]
    f = sensitivity(dim, rank)
    surrogate = built(dim, num_classes)
    plain = LogDet(dim=dim, num_classes=num_classes, noise_std=NOISE_STD)
    surrogate.learn(f)
    for each in (surrogate, plain):
        each(z.double(), y)
    strengths, directions = torch.linalg.eigh(f * dim / f.trace())
    forms = [
        torch.einsum("di,cde,ei->ci", directions, each.precisions, directions)
        for each in (surrogate, plain)
    ]
    expected = forms[1] * 0.3 / (strengths.clamp_min(0) + 0.3)
    assert_near(forms[0], expected, 1e-9)
    assert (forms[0][:, -rank:] < forms[1][:, -rank:]).all()


def test_only_what_the_server_does_not_use_is_pulled_where_it_uses_much():
    """One axis with all sensitivity, F = D there: its share of the pull is kappa / (D + kappa)."""
    f = torch.zeros(DIM, DIM)
    f[2, 2] = 1.0
    surrogate, plain = (
        built(kappa=0.1, num_classes=1),
        LogDet(dim=DIM, num_classes=1, noise_std=NOISE_STD),
    )
    surrogate.learn(f)
    reach = torch.diag(0.1 * torch.arange(1, DIM + 1)).double()
    z, y = torch.cat([reach, -reach]), torch.zeros(2 * DIM, dtype=torch.long)
    share = torch.ones(DIM, dtype=torch.float64)
    share[2] = 0.1 / (DIM + 0.1)
    assert_near(answer(surrogate, z, y)[1], share * answer(plain, z, y)[1], 1e-10)


@pytest.mark.parametrize("refresh", [1, 100])
def test_the_value_bounds_the_information_in_what_the_metric_leaves(refresh):
    surrogate, reference = pair(refresh=refresh)
    for z, y in batches():
        value = surrogate(z.double(), y)
        reference.see(z, y)
        assert float(value) >= float(reference.information(y)) - 1e-12


def test_a_new_metric_acts_from_the_next_factorisation_on():
    surrogate, reference = pair(refresh=2)
    for step, (z, y) in enumerate(batches()):
        if step == 3:
            f = sensitivity(seed=9)
            surrogate.learn(f)
        if step == 4:
            reference.root = root_of(f, 0.3)
        value, gradient = answer(surrogate, z.double(), y)
        reference.see(z, y)
        assert_near(value, reference.value(y), 1e-9)
        assert_near(gradient, reference.gradient(z, y), 1e-9)


def test_the_order_of_the_samples_does_not_matter():
    z, y, num_classes = batch("unequal")
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(1))
    results = []
    for rows in (torch.arange(len(y)), order):
        surrogate = built(12, num_classes)
        surrogate.learn(sensitivity(12))
        value, gradient = answer(surrogate, z[rows].double(), y[rows])
        results.append((value, torch.empty_like(gradient).index_copy_(0, rows, gradient)))
    assert_near(results[1][0], results[0][0], 1e-12)
    assert_near(results[1][1], results[0][1], 1e-9)


def history(surrogate, epochs):
    """Values and gradients of epochs, each begun with another metric."""
    results = []
    for epoch in epochs:
        surrogate.learn(sensitivity(seed=epoch))
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
    assert torch.equal(torch.cat([start, history(second, [3])]), expected)


def test_checkpoints_hold_the_moments_only():
    assert set(built().state_dict()) == {"means", "covariances", "samples"}


def test_notes():
    surrogate, reference = pair(refresh=100)
    for z, y in batches():
        surrogate(z.double(), y)
        reference.see(z, y)
    notes = surrogate.log()
    f = sensitivity()
    assert notes["spared"] == pytest.approx(1 - float(metric(f, 0.3).trace()) / DIM)
    assert notes["effective_rank"] == pytest.approx(
        float(f.trace() / torch.linalg.matrix_norm(f, 2))
    )
    stale = []
    for positions in classes_of(y):
        c = int(y[positions[0]])
        at, precision, sigma_ref = reference.tangents[c]
        pull = reference.shrunk_pull(c)
        change = float((pull @ (reference.moments(c)[1] - sigma_ref)).trace())
        value = float(at + (pull @ reference.moments(c)[1] - precision @ sigma_ref).trace())
        stale.append(abs(change) / value)
    assert notes["stale"] == pytest.approx(sum(stale) / len(stale), rel=1e-6)


@pytest.mark.parametrize(
    ("option", "value", "allowed"),
    [("kappa", 0.0, "positive"), ("kappa", float("nan"), "positive"), ("samples", 0, "at least 1")],
)
def test_options_out_of_range_are_named(option, value, allowed):
    with pytest.raises(ValueError, match=f"{option} is {value}; .*{allowed}"):
        built(**{option: value})


def test_a_metric_of_another_size_is_refused():
    with pytest.raises(ValueError, match=r"TaskAware: metric has shape \(3, 3\).*\(6, 6\)"):
        built().learn(torch.eye(3))
