"""The default learned attack: the best linear reconstruction, and a residual network beside it.

    l = logit(W^T (z~ - m) + b)     (a, o) = N(z^, l)     x1 = s(l + 4 a)     x2 = s(4 o)

    loss = e1 + e2 [e1 / e2]        with e the mean squared error of x1 or x2, over all pixels
    answer = share x1 + (1 - share) x2

W, m, b and the Wiener estimate z^ of the clean features have a closed form, and stay as they are
(`cemlib.attacks.wiener`). N starts at 0 and learns two things with the same features: a correction
of the linear reconstruction, and an image of its own. The correction needs few images; the image
of its own ends lower where there are many, since the linear term differs from place to place and a
convolution takes that back only in part. The quotient [e1 / e2], a constant to the gradient, keeps
the larger error from ruling the other. After every epoch the attacker's held-out images give the
share, by least squares in [0, 1].

Adam with a one-cycle learning rate, fresh release noise in every batch, the attacker's images and,
where images of this kind allow it, their mirror images. The epoch with the lowest error on held-out
images is scored, epoch 0 being the linear reconstruction: there the attack is never worse than
that.

How it fails: its answers tend to the mean of all images that fit a release. Where a release says
little they are blurred, which costs no MSE but looks worse than the attacker's knowledge is.
"""

from dataclasses import fields
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from cemlib.attacks.learning import CHUNK, Batch, Numbers, Regression, learn, squared_error
from cemlib.attacks.task import Outcome, Task
from cemlib.attacks.wiener import linear_estimate
from cemlib.models.decoder import CorrectedDecoder, LinearEstimate
from cemlib.numerics.optim import one_cycle
from cemlib.numerics.seeds import generator
from cemlib.records.checkpoint import State, copied, pack, unpack

WARM_UP = 0.25  # share of the steps in which the learning rate rises
FIXED = {field.name for field in fields(LinearEstimate)}  # tensors that nothing trains
SMALLEST = 1e-30  # squared distance of the two answers


def decoder(task: Task) -> Outcome:
    """Train the decoder on the attacker's pairs, then answer every release.

    Raises:
        DivergedError: if its loss is no longer a number.
    """
    return learn(task, _Correction)


class _Correction(Regression):
    """The decoder in training, with what its best epoch so far trained."""

    def __init__(self, task: Task) -> None:
        super().__init__(task, squared_error)
        assert isinstance(self.model, CorrectedDecoder)
        self.decoder = self.model
        self.decoder.start_at(linear_estimate(task))
        self._best = super()._held_out()["val_mse"]  # with a share of 1
        self._best_state = self._trained()

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
        self.decoder.load_state_dict(self._best_state, strict=False)
        return super().outcome()

    def _loss_of(self, batch: Batch) -> tuple[Tensor, Numbers]:
        with self.precision():
            corrected, own = self.decoder.answers(batch.released)
        first, second = (F.mse_loss(answers, batch.targets) for answers in (corrected, own))
        numbers = {"train_mse": first.detach(), "train_mse_own": second.detach()}
        return first + second * (first / second).detach(), numbers

    def _held_out(self) -> dict[str, float]:
        held_out = self.task.held_out
        noise = generator(self.task.seed, "attack_share_noise", device=self.device)
        self._choose_share(self.task.release(held_out.features, noise), held_out.targets())
        return super()._held_out() | {"share": self.decoder.share.item()}

    @torch.no_grad()
    def _choose_share(self, released: Tensor, targets: Tensor) -> None:
        """Mix the two answers as has the least squared error on some images."""
        self.decoder.eval()
        parts = [self.decoder.answers(part) for part in torch.split(released, CHUNK)]
        corrected, own = map(torch.cat, zip(*parts, strict=True))
        apart = (corrected - own).double()
        share = (apart * (targets - own)).sum() / apart.square().sum().clamp_min(SMALLEST)
        self.decoder.share.copy_(share.clamp(0, 1))

    def _epoch(self, number: int) -> dict[str, Any]:
        row = super()._epoch(number)
        if row["val_mse"] < self._best:
            self._best, self._best_state = row["val_mse"], self._trained()
        return row

    def _trained(self) -> dict[str, Tensor]:
        """Return a copy of all tensors but those of the linear estimates."""
        state = self.decoder.state_dict()
        return copied({name: tensor for name, tensor in state.items() if name not in FIXED})

    def state(self) -> State:
        """Return also what the best epoch trained."""
        tensors, state = super().state()
        return tensors | pack("best", self._best_state), state | {"best": self._best}

    def restore(self, tensors: Numbers, state: dict[str, Any]) -> None:
        """Continue from such a state."""
        super().restore(tensors, state)
        self._best, self._best_state = state["best"], unpack("best", tensors)
