"""Closed-form attacks against scikit-learn and victims whose answer is known."""

from pathlib import Path

import numpy as np
import pytest
import torch
from easy_tasks import Constant, Mixer, make_task
from sklearn.linear_model import Ridge

from cemlib.attacks.linear import linear
from cemlib.attacks.mean_image import mean_image
from cemlib.numerics.ridge import ridge_regression


@pytest.mark.parametrize(("rows", "ridge"), [(200, 1e-3), (200, 10.0), (20, 1e-2)])
def test_ridge_regression_agrees_with_scikit_learn(rows: int, ridge: float) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(3, 2, (rows, 30)) @ rng.normal(size=(30, 30))
    y = rng.normal(size=(rows, 5)) + x[:, :5]
    alpha = rows * ridge * x.var(0).mean()
    reference = Ridge(alpha=alpha, solver="svd").fit(x, y)
    weights, intercept = ridge_regression(torch.from_numpy(x), torch.from_numpy(y), ridge)
    np.testing.assert_allclose(weights.numpy(), reference.coef_.T, rtol=1e-6, atol=1e-10)
    np.testing.assert_allclose(intercept.numpy(), reference.intercept_, rtol=1e-6, atol=1e-8)


def test_a_linear_victim_gives_everything_away(tmp_path: Path) -> None:
    task, targets = make_task(tmp_path, Mixer(), ridge=1e-9)
    found = linear(task)
    assert (found.reconstructions.double() - targets).square().mean() < 1e-9
    inverse = task.victim.model.encoder.mix.T
    assert torch.allclose(found.state["weights"], inverse, atol=1e-4)


def test_behind_a_constant_encoder_nothing_is_left_but_the_mean(tmp_path: Path) -> None:
    task, targets = make_task(tmp_path, Constant(), ridge=1e-3)
    by_linear = (linear(task).reconstructions.double() - targets).square().mean().item()
    by_mean = (mean_image(task).reconstructions.double() - targets).square().mean().item()
    assert by_linear == pytest.approx(by_mean, rel=1e-6)
    assert by_mean == pytest.approx(1 / 12, rel=0.05)
