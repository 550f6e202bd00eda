"""Whether a learned attack had stopped improving when it was scored.

From the held-out MSE v_1 ... v_E of its epochs, with the last tenth the last ceil(E / 10) of them:

    late improvement = 1 - v_E / v_{E - ceil(E / 10)}

An attack that still improved says less about a defence than it could have; a longer training, or
`budget: strong`, shows how much less. It assumes that the error falls smoothly; a schedule whose
rate falls to zero flattens any curve, so a small improvement is necessary, not sufficient.
"""

import math
from collections.abc import Sequence

TOLERANCE = 0.01


def late_improvement(val: Sequence[float]) -> float:
    """Return the share by which the last value lies below that of the epoch before the last tenth.

    Negative if the error rose; 0 if there was nothing left to improve. Infinite where there is no
    epoch before the last tenth (one epoch or none): nothing shows that such an attack is done.

    >>> round(late_improvement([4.0, 2.0, 1.5]), 6)
    0.25
    """
    if len(val) < 2:
        return math.inf
    before = val[-1 - math.ceil(len(val) / 10)]
    return 1 - val[-1] / before if before > 0 else 0.0


def converged(val: Sequence[float]) -> bool:
    """Return whether the held-out error fell by no more than 1 % in the last tenth of epochs.

    An error that rose counts as converged: training on would not have helped.
    """
    return late_improvement(val) <= TOLERANCE
