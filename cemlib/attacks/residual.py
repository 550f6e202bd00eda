"""The published decoder: a residual network trained on released features.

Architecture and schedule of the attack in Xia et al., CVPR 2025 ("res_normN8C64"): Adam with an L2
term on the mean squared error, a cosine to the last epoch, and fresh release noise in every batch.
Unlike `cemlib.attacks.decoder` it does not start from a linear reconstruction, so with few epochs
or images it is far from converged.
"""

from cemlib.attacks.learning import Regression, learn
from cemlib.attacks.task import Outcome, Task


def residual(task: Task) -> Outcome:
    """Train the decoder on the attacker's pairs, then reconstruct every release.

    Raises:
        DivergedError: if its loss is not finite.
    """
    return learn(task, Regression)
