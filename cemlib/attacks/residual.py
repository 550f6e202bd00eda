"""The published decoder: a residual network trained on released features.

Architecture and schedule of the attack in Xia et al., CVPR 2025 ("res_normN8C64"): Adam with an L2
term, a cosine to the last epoch, fresh release noise in every batch, and the mean squared error

    loss = mean (D(z~) - x)^2        over images, channels and pixels in [0, 1].

The last epoch is scored. It learns from nothing what a linear reconstruction has from the start
(see `cemlib.attacks.decoder`), so that few epochs or few images leave it far from converged.
"""

from cemlib.attacks.learning import Regression, learn, squared_error
from cemlib.attacks.task import Outcome, Task


def residual(task: Task) -> Outcome:
    """Train the decoder on the attacker's pairs, then answer every release.

    Raises:
        DivergedError: if its loss is no longer a number.
    """
    return learn(task, lambda planned: Regression(planned, squared_error))
