"""Learning rates and strengths against the published numbers."""

import pytest

from cemlib.config.study import TrainConfig
from cemlib.training.schedule import learning_rate, strength

PUBLISHED = TrainConfig(epochs=240, lr=0.05, milestones=(60, 120, 180, 210), decay=0.2)


@pytest.mark.parametrize(
    ("epoch", "rate"),
    [
        (1, 0.05),
        (60, 0.05),
        (61, 0.01),
        (120, 0.01),
        (121, 0.002),
        (180, 0.002),
        (181, 0.0004),
        (210, 0.0004),
        (211, 0.00008),
        (240, 0.00008),
    ],
)
def test_the_rate_falls_after_each_published_milestone(epoch: int, rate: float) -> None:
    found = [learning_rate(PUBLISHED, epoch, done) for done in (0.0, 0.5, 0.99)]
    assert found == pytest.approx([rate] * 3, rel=1e-12)


@pytest.mark.parametrize(
    ("lr", "published"), [(0.05, 0.32), (0.01, 1.6), (0.002, 8), (0.0004, 16), (0.00008, 16)]
)
def test_strength_for_lambda_16_is_the_published_one(lr: float, published: float) -> None:
    assert strength(16, lr) == pytest.approx(published, rel=1e-12)


def test_without_scaling_lambda_acts_at_every_rate() -> None:
    assert {strength(16, lr, scaled=False) for lr in (0.05, 0.002, 0.00008)} == {16}


def test_strength_at_the_edge_of_the_last_phase() -> None:
    assert strength(16, 4.1e-4) == pytest.approx(16 * 0.001 / 4.1e-4)
    assert strength(16, 4.0999e-4) == 16
    assert strength(0, 0.05) == 0


def test_without_milestones_the_rate_is_constant() -> None:
    constant = TrainConfig(lr=0.1, milestones=())
    assert {learning_rate(constant, epoch) for epoch in range(1, 300)} == {0.1}
