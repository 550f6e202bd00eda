"""The default learned attack: the best linear reconstruction plus a residual network.

    loss = e1 + e2 [e1 / e2]        with e the mean squared error of x1 or x2, over all pixels
    answer = share x1 + (1 - share) x2

The linear part has a closed form (`cemlib.attacks.wiener`), where sparse coding is undone first
(`cemlib.models.uncoding`). The network (`cemlib.models.decoder.CorrectedDecoder`) starts at 0 and
learns a correction x1 of the linear reconstruction, which needs few images, and an image x2 of its
own. With many images x2 has the lower error, because the linear term differs from pixel to pixel,
and convolutions cannot undo all of that. The quotient [e1 / e2], without a gradient, gives both
errors equal weight. After every epoch the share, in [0, 1], is fitted to the attacker's held-out
images by least squares. The epoch with the lowest error on these images is scored, where epoch 0 is
the linear reconstruction.

How it fails: its answers tend to the mean of all images that fit a release. Where a release reveals
little they are blurred, which does not raise the MSE but shows less than the attacker knows.
"""

import math
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cemlib.attacks.learning import CHUNK, Batch, Numbers, Regression, learn
from cemlib.attacks.task import Outcome, Task
from cemlib.attacks.wiener import Undo, check_features, linear_estimate
from cemlib.models.decoder import CorrectedDecoder, LinearEstimate
from cemlib.models.split import SplitModel
from cemlib.models.uncoding import Uncoding
from cemlib.numerics.optim import one_cycle
from cemlib.numerics.ridge import best_share
from cemlib.numerics.seeds import generator
from cemlib.records.checkpoint import State, copied, pack, unpack

WARM_UP = 0.25  # share of the steps in which the learning rate rises


def decoder(task: Task) -> Outcome:
    """Train the decoder on the attacker's pairs, then reconstruct every release.

    Raises:
        DivergedError: if its loss is not finite.
    """
    return learn(task, Correction)


class Correction(Regression):
    """The decoder in training, with the weights of its best epoch so far."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        assert isinstance(self.model, CorrectedDecoder)
        self.decoder = self.model
        estimate = linear_estimate(task)
        self._lowest = self._error_from(estimate)
        undo = self._fitted_uncoding()
        if undo is not None:
            undone = self._error_from(linear_estimate(task, undo))
            if undone <= self._lowest:
                self._lowest = undone
            else:  # the release itself says more, as where outputs saturate
                self.decoder.uncoding = None
                self.decoder.start_at(estimate)
        self._best_state = self._trained()

    def _error_from(self, estimate: LinearEstimate) -> float:
        """Start at a linear reconstruction, and return its held-out error."""
        self.decoder.start_at(estimate)
        return super()._held_out()["val_mse"]

    def _fitted_uncoding(self) -> Undo | None:
        """Fit an uncoding, and return how it maps releases; None without coding or estimate."""
        task, coding = self.task, self.task.victim.coding
        if coding is None or self.decoder.weights.numel() == 0:
            return None
        before, layer = coding
        client = replace(task.victim, model=SplitModel(before, nn.Identity()))
        inputs = client.features(task.own.images).flatten(1)
        check_features(inputs)
        self.decoder.uncoding = Uncoding(inputs.shape[1]).to(self.device)
        self.decoder.uncoding.fit(layer, inputs, task.victim.channel.std / math.sqrt(task.queries))
        return self.decoder.undo_coding

    def rate(self, count: int) -> float:
        """Return the one-cycle rate of the count-th step."""
        done = (count - 0.5) / (self.options["epochs"] * self.steps)
        return one_cycle(done, self.options["lr"], WARM_UP)

    def train(self) -> float:
        """Train the remaining epochs, and return the lowest held-out MSE."""
        super().train()
        return self._lowest

    def best_decoder(self) -> CorrectedDecoder:
        """Return the decoder with the weights of the best epoch, in eval mode."""
        self.decoder.load_state_dict(self._best_state, strict=False)
        return self.decoder.eval()

    def outcome(self) -> Outcome:
        """Return the reconstructions by the decoder of the best epoch."""
        self.best_decoder()
        return super().outcome()

    def loss(self, batch: Batch) -> tuple[Tensor, Numbers]:
        """Return the loss of both answers, and their errors for the history."""
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
        self.decoder.eval()
        parts = [self.decoder.answers(part) for part in torch.split(released, CHUNK)]
        corrected, own = map(torch.cat, zip(*parts, strict=True))
        self.decoder.share.copy_(best_share(corrected, own, targets))

    def epoch(self, number: int) -> dict[str, Any]:
        """Train an epoch, and keep its weights if it is the best so far."""
        row = super().epoch(number)
        if row["val_mse"] < self._lowest:
            self._lowest, self._best_state = row["val_mse"], self._trained()
        return row

    def _trained(self) -> dict[str, Tensor]:
        """Return a copy of the weights of the network, and of the share."""
        state = self.decoder.state_dict()
        return copied({n: t for n, t in state.items() if n == "share" or n.startswith("network.")})

    def state(self) -> State:
        """Return also the weights of the best epoch."""
        tensors, state = super().state()
        return tensors | pack("best", self._best_state), state | {"best": self._lowest}

    def restore(self, tensors: Numbers, state: dict[str, Any]) -> None:
        """Continue from the `state` of a checkpoint."""
        super().restore(tensors, state)
        self._lowest, self._best_state = state["best"], unpack("best", tensors)
