"""The budget of a learned attack: as configured, or strong.

A defence is only as private as the strongest attack shows, and an attack that has not converged
shows nothing. With `budget: strong` an attack trains three times as long, its networks are half as
wide again, and its learning rate is the best of three: each is tried for a third of the configured
epochs, with a schedule of its own, and the lowest MSE on the attacker's held-out images wins.

It assumes that a short trial ranks the rates as the long training would; the best rate of a short
training tends to be too high for a long one, never by more than the factor 3 between the trials.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from cemlib.attacks.task import Task
from cemlib.numerics.divergence import DivergedError
from cemlib.records.checkpoint import Checkpoint

EPOCHS = 3  # times as many as configured
WIDTHS = ("width", "critic_width")  # options that become half as large again
RATES = (1 / 3, 1.0, 3.0)  # tried learning rates, in units of the configured one


def budgeted(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options with the budget's epochs and widths, rounded up to whole."""
    if options["budget"] == "standard":
        return dict(options)
    wider = {name: (3 * options[name] + 1) // 2 for name in WIDTHS if name in options}
    return {**options, **wider, "epochs": EPOCHS * options["epochs"]}


def strengthened(task: Task, trial: Callable[[Task], float]) -> Task:
    """Return the task as its budget has it, with the learning rate that its trials chose.

    Args:
        task: What the attacker has in hand.
        trial: Trains on a task and returns the held-out MSE; raises DivergedError.

    Raises:
        DivergedError: if every trial of a strong budget diverged.
    """
    if task.options["budget"] == "standard":
        return task
    return replace(task, options=budgeted(task.options) | {"lr": _best_rate(task, trial)})


def _best_rate(task: Task, trial: Callable[[Task], float]) -> float:
    """Return the learning rate of the best trial; finished ones are kept beside the checkpoint."""
    kept = Checkpoint(task.checkpoint.folder / "trials")
    found = kept.load()
    results: list[float | str] = [] if found is None else found[1]["results"]
    rates: list[float] = [factor * task.options["lr"] for factor in RATES]
    for rate in rates[len(results) :]:
        results.append(_attempt(_trial_task(task, rate), trial))
        kept.save({}, {"results": results})
    tried = zip(results, rates, strict=True)
    scored = [(result, rate) for result, rate in tried if isinstance(result, float)]
    if not scored:
        faults = "; ".join(map(str, results))
        raise DivergedError(f"every trial of the strong budget failed: {faults}")
    return min(scored)[1]


def _trial_task(task: Task, rate: float) -> Task:
    epochs = max(1, task.options["epochs"] // EPOCHS)
    return replace(
        task,
        options=budgeted(task.options) | {"epochs": epochs, "lr": rate},
        title=f"{task.title}, trial of lr {rate:.3g}",
        checkpoint=Checkpoint(
            task.checkpoint.folder / f"trial_{rate:.3g}", task.checkpoint.interval
        ),
    )


def _attempt(task: Task, trial: Callable[[Task], float]) -> float | str:
    """Return the held-out MSE of a trial, or what was wrong with it."""
    try:
        return trial(task)
    except DivergedError as error:
        return f"lr {task.options['lr']:.3g}, {error}"
