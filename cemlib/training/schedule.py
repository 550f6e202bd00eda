"""Learning rate and strength of the surrogate over the epochs."""

from cemlib.config.study import TrainConfig
from cemlib.optim import one_cycle

LAST_PHASE_LR = 4.1e-4  # below this rate the surrogate acts with its full weight


def learning_rate(settings: TrainConfig, epoch: int, done: float = 0.0) -> float:
    """Return the rate at a place in a 1-based epoch, of which a share `done` is over.

    With `milestones` it is `lr` times `decay` for every milestone passed; else that of `one_cycle`.
    """
    if settings.schedule == "one_cycle":
        share = (epoch - 1 + done) / settings.epochs
        return one_cycle(share, settings.lr, settings.warm_up)
    return settings.lr * settings.decay ** sum(epoch > passed for passed in settings.milestones)


def strength(weight: float, lr: float, scaled: bool = True) -> float:
    """lambda_eff = lambda * 0.001 / lr, and lambda itself in the last phase (lr < 4.1e-4).

    Not `scaled` it is lambda at every rate.

    >>> [round(strength(16, lr), 2) for lr in (0.05, 0.01, 0.002, 0.0004)]
    [0.32, 1.6, 8.0, 16]
    """
    return weight if lr < LAST_PHASE_LR or not scaled else weight * 0.001 / lr
