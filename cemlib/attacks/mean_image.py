"""The mean of the attacker's own images, as the answer to every release."""

from cemlib.attacks.task import Outcome, Task


def mean_image(task: Task) -> Outcome:
    """Return the pixelwise mean of the attacker's images for every release."""
    mean = task.own.images.double().mean(0).div(255).float()
    answers = mean.expand(len(task.released), *mean.shape)
    return Outcome(answers, {"mean": mean})
