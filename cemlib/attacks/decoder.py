"""A residual decoder trained on released features: the standard learned inversion attack.

Architecture and schedule of the attack in Xia et al., CVPR 2025 ("res_normN8C64"): Adam with an L2
term, a cosine to the last epoch, fresh release noise in every batch, and the mean squared error

    loss = mean (D(z~) - x)^2        over images, channels and pixels in [0, 1].

Its answers tend to the mean of all images that fit a release: where a release says little they are
blurred, which costs no MSE but looks worse than the attacker's knowledge is.
"""

from torch import Tensor
from torch.nn import functional as F

from cemlib.attacks.learning import Numbers, Regression, learn
from cemlib.attacks.task import Outcome, Task


def decoder(task: Task) -> Outcome:
    """Train the decoder on the attacker's pairs, then answer every release.

    Raises:
        DivergedError: if its loss is no longer a number.
    """
    return learn(task, lambda planned: Regression(planned, squared_error))


def squared_error(answers: Tensor, targets: Tensor) -> tuple[Tensor, Numbers]:
    """Mean squared error of answers and targets, both (B, C, H, W), and the same for the record."""
    mse = F.mse_loss(answers, targets)
    return mse, {"train_mse": mse.detach()}
