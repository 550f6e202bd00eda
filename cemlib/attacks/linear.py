"""Ridge regression from released features to pixels: closed form, no tuning, seconds.

A floor for every other attack: one that does worse than this has not converged.
"""

from cemlib.attacks.task import Outcome, Task
from cemlib.numerics.ridge import ridge_regression
from cemlib.numerics.seeds import generator

KEPT = 2**25  # weights at most that are written down


def linear(task: Task) -> Outcome:
    """Fit on one release of the attacker's images, answer clipped to [0, 1]."""
    noise = generator(task.seed, "attack_noise")
    inputs = task.release(task.own.features, noise).flatten(1)
    targets = task.own.targets().flatten(1)
    weights, intercept = ridge_regression(inputs, targets, task.options["ridge"])
    answers = (task.released.flatten(1).double() @ weights + intercept).float().clamp(0, 1)
    state = {"intercept": intercept.float()}
    # At 128x128 pixels they would fill gigabytes, and are computed again in seconds.
    if weights.numel() <= KEPT:
        state["weights"] = weights.float()
    return Outcome(answers.view(-1, *task.image_shape), state)
