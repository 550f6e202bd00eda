"""The default learned attack: a residual network that corrects the best linear reconstruction.

    x^ = s( logit(W^T (z~ - m) + b) + 4 N(z^) )       loss = mean (x^ - x)^2 over all pixels

W, m, b and the Wiener estimate z^ of the clean features have a closed form, and stay as they are
(`cemlib.attacks.wiener`). N starts at 0 and is trained by Adam with a one-cycle learning rate and
fresh release noise in every batch, on the attacker's images and, where images of this kind allow
it, their mirror images. The epoch with the lowest error on the attacker's held-out images is
scored, the linear reconstruction being epoch 0: there the attack is never worse than that.

How it fails: the linear term is frozen and differs from place to place, so that a convolutional N
takes its errors back only in part. A large N that is trained for long can do better without it:
`residual`, the published decoder, is such a one.

Its answers tend to the mean of all images that fit a release: where a release says little they are
blurred, which costs no MSE but looks worse than the attacker's knowledge is.
"""

from typing import Any

from torch import Tensor

from cemlib.attacks.learning import Numbers, Regression, learn, squared_error
from cemlib.attacks.task import Outcome, Task
from cemlib.attacks.wiener import linear_estimate
from cemlib.checkpoint import State, copied, pack, unpack
from cemlib.models.decoder import CorrectedDecoder
from cemlib.optim import one_cycle

WARM_UP = 0.25  # share of the steps in which the learning rate rises


def decoder(task: Task) -> Outcome:
    """Train the decoder on the attacker's pairs, then answer every release.

    Raises:
        DivergedError: if its loss is no longer a number.
    """
    return learn(task, _Correction)


class _Correction(Regression):
    """The decoder in training, with the network of its best epoch so far."""

    def __init__(self, task: Task) -> None:
        super().__init__(task, squared_error)
        assert isinstance(self.model, CorrectedDecoder)
        self.network = self.model.network
        self.model.start_at(linear_estimate(task))
        self._best = self._held_out(0)["val_mse"]
        self._best_network = self._copied_network()

    def rate(self, count: int) -> float:
        """Return the one-cycle rate of the count-th step."""
        done = (count - 0.5) / (self.options["epochs"] * self.steps)
        return one_cycle(done, self.options["lr"], WARM_UP)

    def train(self) -> float:
        """Train all epochs that are not done yet; returns the lowest held-out MSE."""
        super().train()
        return self._best

    def outcome(self) -> Outcome:
        """Answer every release of the task with the best epoch's decoder."""
        self.network.load_state_dict(self._best_network)
        return super().outcome()

    def _epoch(self, number: int) -> dict[str, Any]:
        row = super()._epoch(number)
        if row["val_mse"] < self._best:
            self._best, self._best_network = row["val_mse"], self._copied_network()
        return row

    def _copied_network(self) -> dict[str, Tensor]:
        return copied(self.network.state_dict())

    def _state(self) -> State:
        tensors, state = super()._state()
        return tensors | pack("best", self._best_network), state | {"best": self._best}

    def _restore(self, tensors: Numbers, state: dict[str, Any]) -> None:
        super()._restore(tensors, state)
        self._best, self._best_network = state["best"], unpack("best", tensors)
