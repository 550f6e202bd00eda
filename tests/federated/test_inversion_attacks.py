"""What the attacks and their searches find, and that no problem depends on another."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from inversion_scenes import class_means, digits, network, scene, trained, undefended
from scipy.optimize import minimize, rosen, rosen_der
from torch import Tensor

from cemlib.config.federated import MaskConfig, Variant
from cemlib.config.federated_attacks import (
    AnyInversion,
    Combined,
    Cosine,
    Dlg,
    Idlg,
    Linked,
    PriorImage,
)
from cemlib.data.prepared import Prepared, Split
from cemlib.federated.attacking import class_moments
from cemlib.federated.inversion.cosine import signed_descent
from cemlib.federated.inversion.evaluate import attack
from cemlib.federated.inversion.gradients import Shared
from cemlib.federated.inversion.lbfgs import Objective, minimise
from cemlib.federated.inversion.mixtures import linked_scene, solved, unmixed
from cemlib.federated.inversion.scene import Repeats, Scene, shared_gradients
from cemlib.federated.inversion.scoring import matched
from cemlib.federated.inversion.search import Reconstruction
from cemlib.metrics import mse

IMAGES = 3


def attacked(settings: AnyInversion, shared: Shared, seed: int = 1) -> Reconstruction:
    return attack(network(), shared, settings, seed)


def errors(settings: AnyInversion, shared: Shared, images: torch.Tensor) -> torch.Tensor:
    return mse(attacked(settings, shared).images.flatten(0, 1), images)


def test_image_and_label_come_back_from_an_undefended_gradient() -> None:
    images, labels = digits(IMAGES)
    found = attacked(Dlg(iterations=80), undefended(network(), images, labels))
    assert mse(found.images[:, 0], images).max() < 1e-4
    assert torch.equal(found.labels[:, 0], labels)
    assert (found.curve[:, -1] < 1e-3 * found.curve[:, 0]).all()


def test_cosine_comes_closer_than_the_mean_image() -> None:
    images, labels = digits(IMAGES)
    shared = undefended(network(), images, labels)
    ceiling = errors(PriorImage(), shared, images)
    torch.testing.assert_close(ceiling, mse(class_means()[labels], images))
    assert errors(Cosine(iterations=100), shared, images).mean() < 0.1 * ceiling.mean()


def test_the_images_of_an_update_of_several_steps_come_back() -> None:
    where = scene(8)
    shared = shared_gradients(network(), where, Variant(), 4, seed=0, steps=4, lr=0.1)
    found = matched(attacked(Combined(iterations=60), shared), where.images)
    ceiling = mse(where.prior[where.labels], where.images)
    assert mse(found.images.flatten(0, 1), where.images).mean() < 0.2 * ceiling.mean()
    assert torch.equal(found.labels.flatten(), where.labels)


def test_all_that_is_known_together_comes_back_from_a_trained_network() -> None:
    """Where the images are classified well, and matching gradients alone fails."""
    images, labels = digits(4)
    net = trained(300)
    shared = undefended(net, images, labels)
    ceiling = mse(class_means()[labels], images).mean()

    def error(settings: AnyInversion) -> torch.Tensor:
        found = attack(net, shared, settings, seed=1)
        return mse(found.images[:, 0], images).mean()

    assert error(Combined(iterations=60)) < 0.25 * ceiling
    assert error(Idlg(iterations=60)) > ceiling


def test_who_leaves_out_the_pruned_entries_sees_the_image() -> None:
    where = scene(IMAGES)
    shared = shared_gradients(network(), where, Variant(mask=MaskConfig(beta=5)), 1, seed=0)
    believing = attacked(Idlg(iterations=60), shared)
    for aware in (Idlg(iterations=60, mask="estimated"), Idlg(iterations=60, mask="layer")):
        found = attacked(aware, shared)
        assert (found.loss <= believing.loss).all()
        assert mse(found.images[:, 0], where.images).max() < 1e-4
    assert mse(believing.images[:, 0], where.images).mean() > 1e-2


@pytest.mark.parametrize(
    "settings",
    [
        Dlg(iterations=15),
        Idlg(iterations=15),
        Cosine(iterations=8, mask="estimated"),
        Combined(iterations=8),
    ],
    ids=lambda settings: settings.kind,
)
def test_an_answer_depends_on_no_neighbour(settings: AnyInversion) -> None:
    images, labels = digits(6)
    one = attacked(settings, undefended(network(), images[:3], labels[:3]))
    others = torch.tensor([0, 4, 5])
    two = attacked(settings, undefended(network(), images[others], labels[others]))
    assert torch.equal(one.images[0], two.images[0])
    assert torch.equal(one.curve[0], two.curve[0])
    assert not torch.equal(one.images[1], two.images[1])


def test_another_seed_gives_other_starts() -> None:
    shared = undefended(network(), *digits(2))
    first, again, other = (attacked(Idlg(iterations=2), shared, seed) for seed in (1, 1, 2))
    assert torch.equal(first.images, again.images)
    assert not torch.isclose(first.images, other.images).all((1, 2, 3, 4)).any()


def test_a_gradient_that_is_not_a_number_fails_alone() -> None:
    images, labels = digits(3)
    shared = undefended(network(), images, labels)
    broken = {name: value.clone() for name, value in shared.gradients.items()}
    for value in broken.values():
        value[1] = torch.nan
    for settings in (Dlg(iterations=5), Cosine(iterations=5), Combined(iterations=5), PriorImage()):
        found = attacked(settings, replace(shared, gradients=broken))
        assert found.loss.isfinite().tolist() == [True, False, True], settings.kind


@pytest.mark.parametrize("rounds", [1, 8])
def test_who_links_mixtures_reaches_the_error_of_the_best_linear_guess(rounds: int) -> None:
    """A (1 - (1 - 1/M) r^2 A / V), for M exact mixtures with pseudo images of any mean."""
    draws, none, r, images = torch.Generator().manual_seed(0), torch.zeros(0), 0.5, 30
    true = 0.5 + 0.06 * torch.randn(8, images, 1, 1, 16, 16, generator=draws)
    pseudo = 0.3 + 0.08 * torch.randn(8, images, rounds, 1, 16, 16, generator=draws)
    mixtures = r * true + (1 - r) * pseudo
    prior, spread = torch.full((10, 1, 16, 16), 0.5), torch.full((10,), 0.06**2)
    labels = torch.arange(8)
    where = Scene(true[:, 0, 0], labels, mixtures[:, 0, 0], torch.full((8,), r), prior)
    repeats, linked = Repeats(mixtures, r, spread), Linked(images=images, rounds=rounds)
    many = linked_scene(where, repeats, linked)
    seen = many.trained[:, None]
    answer = Reconstruction(seen, many.labels[:, None], torch.ones(len(seen)), seen[:, 0, 0, :1, 0])
    found = solved(answer, where, repeats, linked)
    error = (found.images[:, 0] - where.images).square().mean().item()
    power = r**2 * 0.06**2
    shown = power / (power + (1 - r) ** 2 * 0.08**2 / rounds)
    assert error == pytest.approx(0.06**2 * (1 - (1 - 1 / images) * shown), rel=0.05)
    assert torch.equal(found.labels[:, 0], labels)
    alone = Reconstruction(where.trained[:, None], labels[:, None], none, none)
    assert error < (unmixed(alone, where.ratio, prior).images[:, 0] - where.images).square().mean()


def test_mixtures_without_the_image_give_the_class_mean() -> None:
    mixtures, prior = torch.full((2, 3, 4, 1, 8, 8), 0.7), torch.full((10, 1, 8, 8), 0.5)
    labels, shares = torch.arange(2), torch.zeros(2)
    where = Scene(torch.rand(2, 1, 8, 8), labels, mixtures[:, 0, 0], shares, prior)
    repeats, linked = Repeats(mixtures, 0.0, torch.full((10,), 0.01)), Linked(images=3, rounds=4)
    many = linked_scene(where, repeats, linked)
    seen = many.trained[:, None]
    answer = Reconstruction(seen, many.labels[:, None], torch.ones(len(seen)), seen[:, 0, 0, :1, 0])
    assert torch.equal(solved(answer, where, repeats, linked).images[:, 0], prior[:2])


def test_the_moments_of_a_class_are_those_of_its_validation_images(data: Prepared) -> None:
    """The variance is unbiased; a class with one image has the moments of all."""
    first = (data.val.labels == 0).nonzero()[0, 0]
    kept = data.val.labels.ne(0)
    kept[first] = True
    val = Split(data.val.images[kept], data.val.labels[kept])
    means, spread = class_moments(replace(data, val=val))
    pixels, labels = val.images.double().numpy() / 255, val.labels.numpy()
    for label, images in enumerate([pixels, *(pixels[labels == k] for k in range(1, 10))]):
        np.testing.assert_allclose(means[label], images.mean(0), atol=1e-6)
        assert spread[label].item() == pytest.approx(images.var(0, ddof=1).mean(), rel=1e-5)


@pytest.mark.parametrize("ratio", [0.3, 0.5, 0.8])
def test_no_other_factor_guesses_the_true_image_better(ratio: float) -> None:
    """Of images and pseudo images that vary alike around the mean image of their class."""
    draws, none = torch.Generator().manual_seed(0), torch.zeros(1)
    true, pseudo = 0.5 + 0.05 * torch.randn(2, 1, 1, 1, 200, 200, generator=draws)
    seen = ratio * true + (1 - ratio) * pseudo
    answer = Reconstruction(seen, torch.zeros(1, 1).long(), none, none[:, None])
    guess = unmixed(answer, torch.tensor([ratio]), torch.full((10, 1, 200, 200), 0.5))
    ours = (guess.images - true).square().mean()
    for factor in torch.linspace(0, 2, 21):
        assert ours <= (0.5 + factor * (seen - 0.5) - true).square().mean() + 1e-5


def test_signed_descent_keeps_the_best_and_stays_in_the_box() -> None:
    target = torch.tensor([[0.3], [1.7]])
    best = signed_descent(lambda x: (x - target).square().sum(1), torch.zeros(2, 1), 200, 0.1)
    torch.testing.assert_close(best.points, torch.tensor([[0.3], [1.0]]), rtol=0, atol=2e-3)
    assert torch.equal(best.values, best.curve.min(1).values)


def test_the_rate_of_signed_descent_falls_to_a_tenth_three_times() -> None:
    """The slope has one sign throughout, so that Adam moves by the rate."""
    seen: list[Tensor] = []

    def falling(x: Tensor) -> Tensor:
        seen.append(x.detach().clone())
        return -x.sum(1)

    signed_descent(falling, torch.zeros(1, 1, dtype=torch.float64), 16, 0.01)
    rates = [0.01] * 6 + [1e-3] * 4 + [1e-4] * 4 + [1e-5] * 2
    assert torch.cat(seen).flatten().diff().tolist() == pytest.approx(rates)


def rosenbrock(points: Tensor) -> Tensor:
    a, b = points[:, :-1], points[:, 1:]
    return (100 * (b - a.square()).square() + (1 - a).square()).sum(1)


def quadratic(matrices: Tensor, targets: Tensor) -> Objective:
    """Return the function 1/2 (x - t)' A (x - t) of each problem."""
    return lambda x: 0.5 * ((x - targets) * (matrices @ (x - targets)[:, :, None])[:, :, 0]).sum(1)


def test_quadratics_of_any_scale_reach_their_minimum() -> None:
    factors = torch.randn(5, 12, 12, dtype=torch.float64)
    scales = torch.logspace(-6, 6, 5, dtype=torch.float64)[:, None, None]
    matrices = scales * (factors @ factors.mT + torch.eye(12, dtype=torch.float64))
    targets = torch.randn(5, 12, dtype=torch.float64)
    start = torch.zeros(5, 12, dtype=torch.float64)
    found = minimise(quadratic(matrices, targets), start, 300)
    torch.testing.assert_close(found.points, targets, rtol=0, atol=1e-6)


def test_the_valley_of_rosenbrock_is_followed_about_as_fast_as_by_scipy() -> None:
    start = np.array([-1.2, 1.0, -1.2, 1.0])
    theirs = minimize(rosen, start, jac=rosen_der, method="L-BFGS-B", options={"ftol": 1e-14})
    found = minimise(rosenbrock, torch.tensor(start)[None], 3 * int(theirs.nfev))
    assert found.values.item() < 1e-8
    torch.testing.assert_close(found.points[0], torch.ones(4).double(), rtol=0, atol=1e-4)


def test_values_never_rise() -> None:
    torch.manual_seed(1)
    found = minimise(rosenbrock, 3 * torch.randn(20, 6, dtype=torch.float64), 100)
    assert (found.curve.diff(dim=1) <= 0).all()
    assert torch.equal(found.curve[:, -1], found.values)
    assert torch.equal(rosenbrock(found.points), found.values)


def test_a_cliff_is_stepped_back_from() -> None:
    """x - log x is no number below 0, where the first step may lead; its minimum is at 1."""

    start = torch.tensor([[20.0], [0.01]], dtype=torch.float64)
    found = minimise(lambda x: (x - x.log()).sum(1), start, 80)
    torch.testing.assert_close(found.points, torch.ones(2, 1).double(), rtol=0, atol=1e-6)
