"""The attack that looks at nothing: the mean of the attacker's own images.

Its error is the ceiling: a defence that reaches it reveals no more than what images of this kind
have in common.
"""

from cemlib.attacks.task import Outcome, Task


def mean_image(task: Task) -> Outcome:
    """Answer every release with the pixelwise mean of the attacker's images."""
    mean = task.own.images.double().mean(0).div(255).float()
    answers = mean.expand(len(task.released), *mean.shape)
    return Outcome(answers, {"mean": mean})
