"""What the learned attacks share: a decoder trained on the attacker's pairs, epoch by epoch.

Every batch is released afresh, so the attacker trains on what the channel really gives out. The
last epoch is scored, and the decoder is in eval mode whenever it is. All random streams are derived
from the seed and the epoch (or the batch), so that weights, optimiser and history are all a killed
attack needs to end with the same numbers.

It assumes that the attacker can release his own images as often as he likes (white box).
"""

import math
import time
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cemlib.attacks.budget import strengthened
from cemlib.attacks.start import untrained
from cemlib.attacks.task import Outcome, Task
from cemlib.data.batches import Shuffle
from cemlib.numerics.divergence import check_finite
from cemlib.numerics.optim import Adam, Optimiser, Rate
from cemlib.numerics.precision import autocast, resolve
from cemlib.numerics.replay import Replay
from cemlib.numerics.seeds import derive, generator
from cemlib.numerics.sums import Sums
from cemlib.records.checkpoint import (
    Resumed,
    State,
    copied,
    pack,
    restore_training,
    training_state,
    unpack,
)

CHUNK = 512
RECOGNISED = 500  # held-out images whose reconstructions the judge looks at after every epoch

Numbers = dict[str, Tensor]
# Answers and targets, both (B, C, H, W), to the loss and to what the history says of it.
Objective = Callable[[Tensor, Tensor], tuple[Tensor, Numbers]]


@dataclass(frozen=True)
class Batch:
    """One step's share of the attacker's pairs.

    Attributes:
        released: Freshly released features (B, c, h, w).
        targets: Their images (B, C, H, W) in [0, 1].
        lr: Learning rate of the step.
        kind: What `Training.kind` says of the step.
    """

    released: Tensor
    targets: Tensor
    lr: Rate
    kind: Hashable


class Training:
    """A decoder in training; what happens in a step is the subclass's.

    Args:
        task: What the attacker has in hand, with the options of the attack.
        model: The decoder, on the device of the task.
        optimiser: Of the decoder's weights.

    Attributes:
        parts: Everything that is trained, with its optimiser, by its name in the checkpoint.
        generators: What steps draw from, on the device, by the names of their random streams.
        history: One row for every epoch that is done.
    """

    def __init__(self, task: Task, model: nn.Module, optimiser: Optimiser) -> None:
        self.task, self.options = task, task.options
        self.device = task.own.features.device
        self.model = model
        self.parts: dict[str, tuple[nn.Module, Optimiser]] = {"model": (model, optimiser)}
        self.generators = {"attack_noise": torch.Generator(self.device)}
        self.history: list[dict[str, Any]] = []
        self._shuffle = Shuffle(len(task.own.images), self.options["batch_size"], self.device)
        self._sums = Sums()
        self._replays: dict[Hashable, Replay] = defaultdict(
            lambda: Replay(self.device, self.generators.values)
        )

    def rate(self, count: int) -> float:
        """Return the learning rate of the count-th step since the attack began, from 1.

        A cosine over the epochs down to the option `final_lr`; constant for an attack without one.
        """
        first = self.options["lr"]
        last = self.options.get("final_lr", first)
        epoch = (count - 1) // self.steps + 1
        return cosine(epoch, self.options["epochs"], first, last)

    @property
    def steps(self) -> int:
        """Return the number of steps of an epoch."""
        return len(self._shuffle.sizes)

    def kind(self, count: int) -> Hashable:  # noqa: ARG002 - here all steps are of one kind
        """Return what tells the count-th step of the attack, from 1, from those that differ."""
        return None

    def step(self, batch: Batch) -> Numbers:
        """Train on a batch; returns detached scalars, whose means over the epoch are recorded."""
        raise NotImplementedError

    def train(self) -> float:
        """Train all epochs that are not done yet; returns the last held-out MSE.

        Raises:
            DivergedError: if a number of the history is not finite.
        """
        resumed, shown = Resumed(self, self.task.checkpoint), ("train_mse", "val_mse")
        with self.task.checkpoint.written_when_interrupted():
            for _ in resumed.remaining(self.task.title, self.options["epochs"], shown):
                pass
        return float(self.history[-1]["val_mse"])

    def remaining(self) -> Iterator[dict[str, Any]]:
        """Train the epochs that are not done yet, one by one."""
        for number in range(len(self.history) + 1, self.options["epochs"] + 1):
            yield self._epoch(number)

    def state(self) -> State:
        """Return what a killed attack resumes from, in memory of its own."""
        tensors: Numbers = {}
        for name, (module, optimiser) in self.parts.items():
            tensors |= pack(name, copied(training_state({"module": module}, optimiser)))
        return tensors, {}

    def restore(self, tensors: Numbers, _state: dict[str, Any]) -> None:
        """Continue from such a state."""
        for name, (module, optimiser) in self.parts.items():
            restore_training(unpack(name, tensors), {"module": module}, optimiser)

    def outcome(self) -> Outcome:
        """Answer every release of the task with the decoder as it is."""
        answers = self.answer(self.task.released)
        return Outcome(answers, self.model.state_dict(), self.history)

    def answer(self, released: Tensor) -> Tensor:
        """Decode releases (N, c, h, w) to images (N, C, H, W), in eval mode."""
        self.model.eval()
        with torch.no_grad():
            return torch.cat([self.model(part) for part in torch.split(released, CHUNK)])

    def precision(self) -> torch.autocast:
        """Return the arithmetic of the forward passes, by the option `precision`."""
        return autocast(resolve(self.options["precision"], self.device), self.device)

    def _epoch(self, number: int) -> dict[str, Any]:
        start = time.perf_counter()
        numbers = self.pass_over(number) | self._held_out()
        check_finite(number, **numbers)
        lr = self.rate(number * self.steps)
        row = {"epoch": number, "lr": lr, **numbers, "seconds": time.perf_counter() - start}
        self.history.append(row)
        return row

    def pass_over(self, number: int) -> dict[str, float]:
        """Take the steps of an epoch alone; their means are read at its end."""
        for stream, draws in self.generators.items():
            draws.manual_seed(derive(self.task.seed, stream, number))
        self._shuffle.begin(generator(self.task.seed, "attack_order", number))
        sizes = self._shuffle.sizes
        for count, size in enumerate(sizes, (number - 1) * len(sizes) + 1):
            kind = self.kind(count)
            replay = self._replays[kind]
            step = partial(self._advance, size, replay.shared("lr", self.rate(count)), kind)
            if size == sizes[0]:
                replay(step, kind)
            else:
                step()
        sums, seen = self._sums.take()
        return {name: total / seen for name, total in sums.items()}

    def _advance(self, size: int, lr: Rate, kind: Hashable) -> None:
        """Take the next batch, release it afresh, and train on it."""
        _, rows = self._shuffle.take(size)
        released = self.task.release(self.task.own.features[rows], self.generators["attack_noise"])
        released = released.contiguous(memory_format=torch.channels_last)
        numbers = self.step(Batch(released, self.task.own.targets(rows), lr, kind))
        self._sums.add(numbers, size)

    def _held_out(self) -> dict[str, float]:
        """Return the error on held-out images, and the share of some that the judge recognises.

        Every epoch sees the same release of them: epochs differ by what was learned alone.
        """
        held_out = self.task.held_out
        noise = generator(self.task.seed, "attack_val_noise", device=self.device)
        answers = self.answer(self.task.release(held_out.features, noise))
        with torch.no_grad():
            found = self.task.judge(answers[:RECOGNISED]).argmax(1)
        right = (found == held_out.labels[:RECOGNISED]).float().mean()
        mse = F.mse_loss(answers, held_out.targets())
        return {"val_mse": mse.item(), "val_recon_top1": right.item()}


class Regression(Training):
    """A new decoder that descends an objective of its answers and the images.

    By Adam with an L2 term.

    Args:
        task: What the attacker has in hand.
        objective: What is descended; among its numbers is `train_mse`. It is computed under the
            option `precision` only where it says so itself: the answers are float32.
    """

    def __init__(self, task: Task, objective: Objective) -> None:
        torch.manual_seed(derive(task.seed, "attacker"))
        model = untrained(task.options, task.own.features.shape[1:], task.image_shape)
        model = model.to(task.own.features.device).to(memory_format=torch.channels_last)
        self.optimiser = Adam(model.parameters(), weight_decay=task.options["weight_decay"])
        self.objective = objective
        super().__init__(task, model, self.optimiser)

    def step(self, batch: Batch) -> Numbers:
        """Descend the objective once."""
        self.model.train()
        loss, numbers = self._loss_of(batch)
        self.optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimiser.step(batch.lr)
        return numbers

    def _loss_of(self, batch: Batch) -> tuple[Tensor, Numbers]:
        with self.precision():
            answers = self.model(batch.released)
        return self.objective(answers.float(), batch.targets)


def squared_error(answers: Tensor, targets: Tensor) -> tuple[Tensor, Numbers]:
    """Return the mean squared error of answers and targets, (B, C, H, W), to descend and to log."""
    mse = F.mse_loss(answers, targets)
    return mse, {"train_mse": mse.detach()}


def learn(task: Task, begin: Callable[[Task], Training]) -> Outcome:
    """Carry out a learned attack with the budget its options name.

    Args:
        task: What the attacker has in hand.
        begin: Builds the training of a task; called again for every trial of a strong budget.

    Raises:
        DivergedError: if its loss is no longer a number, or no trial's is.
    """
    training = begin(strengthened(task, lambda trial: begin(trial).train()))
    training.train()
    return training.outcome()


def cosine(epoch: int, epochs: int, first: float, last: float) -> float:
    """Return the learning rate of a 1-based epoch, on half a cosine from `first` to `last`."""
    done = (epoch - 1) / max(1, epochs - 1)
    return last + (first - last) * (1 + math.cos(math.pi * done)) / 2
