"""The strong budget: what it changes and how it chooses; and late improvement, by hand."""

import math
from pathlib import Path
from typing import Any

import pytest
from easy_tasks import OPTIONS, easy_task, killed, same

from cemlib.attacks.budget import budgeted, late_improvement, strengthened
from cemlib.attacks.residual import residual
from cemlib.attacks.task import Task
from cemlib.config.attacks import Gan, Residual
from cemlib.evaluation.scores import convergence
from cemlib.numerics.divergence import DivergedError


def strong_task(place: Path, **options: Any) -> Task:
    return easy_task(place, Residual, **(OPTIONS | {"budget": "strong"} | options))[0]


class Trials:
    """Held-out errors by learning rate; None diverges, and an absent rate stops the process."""

    def __init__(self, errors: dict[float, float | None]) -> None:
        self.errors, self.tasks = errors, list[Task]()

    def __call__(self, task: Task) -> float:
        self.tasks.append(task)
        rate = round(task.options["lr"], 12)
        if rate not in self.errors:
            raise KeyboardInterrupt
        error = self.errors[rate]
        if error is None:
            raise DivergedError(f"at {rate}")
        return error


def test_what_a_strong_budget_changes() -> None:
    standard = Residual(epochs=7, width=15, lr=0.02).model_dump()
    assert budgeted(standard) == standard
    strong = Residual(epochs=7, width=15, lr=0.02, budget="strong").model_dump()
    assert budgeted(strong) == {**strong, "epochs": 21, "width": 23}
    gan = Gan(epochs=7, critic_width=64, budget="strong").model_dump()
    assert budgeted(gan) == {**gan, "epochs": 21, "critic_width": 96}


def test_a_standard_budget_has_no_trials(tmp_path: Path) -> None:
    task, _ = easy_task(tmp_path, **OPTIONS)
    assert strengthened(task, Trials({})) is task


def test_every_rate_is_tried_for_a_third_of_the_epochs(tmp_path: Path) -> None:
    task = strong_task(tmp_path, lr=0.3, epochs=20, width=10)
    trials = Trials({0.1: 3.0, 0.3: 2.0, 0.9: 2.5})
    chosen = strengthened(task, trials).options
    assert chosen == {**task.options, "lr": 0.3, "epochs": 60, "width": 15}
    assert [round(t.options["lr"], 12) for t in trials.tasks] == [0.3, 0.1, 0.9]
    assert {(t.options["epochs"], t.options["width"]) for t in trials.tasks} == {(6, 15)}
    assert len({t.checkpoint.folder for t in [task, *trials.tasks]}) == 4


@pytest.mark.parametrize(
    ("errors", "best"),
    [((2.0, 2.0, 2.0), 0.3), ((3.0, None, None), 0.1)],
    ids=["equal", "diverged"],
)
def test_of_equal_trials_the_configured_rate_wins_and_one_that_diverges_loses(
    tmp_path: Path, errors: tuple[float | None, ...], best: float
) -> None:
    """A trial has a third of the epochs, but at least one."""
    trials = Trials(dict(zip((0.1, 0.3, 0.9), errors, strict=True)))
    chosen = strengthened(strong_task(tmp_path, lr=0.3, epochs=2), trials)
    assert chosen.options["lr"] == pytest.approx(best)
    assert {t.options["epochs"] for t in trials.tasks} == {1}


def test_if_all_trials_diverge_so_does_the_attack(tmp_path: Path) -> None:
    trials = Trials({0.1: None, 0.3: None, 0.9: None})
    with pytest.raises(DivergedError, match=r"every trial .* lr 0\.1, at 0\.1.* lr 0\.9, at 0\.9"):
        strengthened(strong_task(tmp_path, lr=0.3), trials)


def test_finished_trials_are_not_repeated(tmp_path: Path) -> None:
    task = strong_task(tmp_path, lr=0.3)
    with pytest.raises(KeyboardInterrupt):
        strengthened(task, Trials({0.1: None, 0.3: 2.0}))
    last = Trials({0.9: 2.5})
    assert strengthened(task, last).options["lr"] == 0.3
    assert len(last.tasks) == 1
    assert strengthened(task, Trials({})).options["lr"] == 0.3


def test_an_interrupted_strong_attack_ends_with_the_same_bits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    task = strong_task(tmp_path / "alone", std=0.05, epochs=1, width=4)
    again = killed(residual, task, tmp_path / "killed")
    assert "trial of lr" in capsys.readouterr().err
    resumed = residual(again)
    shown = capsys.readouterr().err
    assert "trial of lr" not in shown
    assert "epoch 3/3" in shown
    assert "epoch 2/3" not in shown
    assert same(resumed, residual(task))


FALLING = [float(40 - epoch) for epoch in range(1, 21)]  # 22 at epoch 18, 20 at epoch 20


@pytest.mark.parametrize(
    ("val", "expected"),
    [
        (FALLING, 2 / 22),
        ([9.0, 8.0, 4.0, 3.0, *[2.0] * 6, 1.0], 0.5),
        # Of eleven epochs the last two are the last tenth, so nine come before it.
        ([9.0] * 8 + [4.0, 2.0, 3.0], 0.5),
        ([9.0] * 7 + [4.0, 8.0, 3.0, 5.0], 0.25),
        ([9.0] * 7 + [4.0, 8.0, 6.0, 5.0], 0.0),  # fluctuates, without a new best
        ([9.0] * 8 + [4.0, 3.0], 0.25),
        ([4.0, 3.0], 0.25),
        ([2.0, 3.0], 0.0),
        ([0.0, 0.0], 0.0),  # nothing left to improve
        ([1.0, 0.0], 1.0),
        ([], math.inf),
        ([0.5], math.inf),
    ],
)
def test_the_best_epoch_is_compared_with_the_best_before_the_last_tenth(
    val: list[float], expected: float
) -> None:
    assert late_improvement(val) == pytest.approx(expected)
    assert convergence(val)["converged"] == ((expected <= 0.01) if val else None)


def test_the_tolerance_is_the_largest_improvement_allowed() -> None:
    assert convergence([1.0, 0.9901])["converged"]
    assert not convergence([1.0, 0.9899])["converged"]
