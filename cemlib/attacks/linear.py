"""Ridge regression from released features to pixels, in closed form."""

from cemlib.attacks.task import Outcome, Task
from cemlib.numerics.ridge import ridge_regression
from cemlib.numerics.seeds import generator

KEPT = 2**25  # largest number of weights that are stored


def linear(task: Task) -> Outcome:
    """Fit to one release of the attacker's images, and reconstruct every release in [0, 1]."""
    noise = generator(task.seed, "attack_noise")
    inputs = task.release(task.own.features, noise).flatten(1)
    targets = task.own.targets().flatten(1)
    weights, intercept = ridge_regression(inputs, targets, task.options["ridge"])
    answers = (task.released.flatten(1).double() @ weights + intercept).float().clamp(0, 1)
    state = {"intercept": intercept.float()}
    # At 128x128 pixels the weights would take gigabytes, and computing them takes seconds.
    if weights.numel() <= KEPT:
        state["weights"] = weights.float()
    return Outcome(answers.view(-1, *task.image_shape), state)
