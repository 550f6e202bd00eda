"""The training of a decoder on the attacker's pairs, which all learned attacks share.

Every batch is released anew, so the attacker trains on what the channel really releases. The last
epoch is scored, except by `decoder`. All random streams are derived from the seed and the epoch, so
that a killed attack needs only weights, optimisers and history to end with the same numbers.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cemlib.attacks.budget import strengthened, untrained
from cemlib.attacks.task import Outcome, Task
from cemlib.data.batches import Shuffle
from cemlib.numerics.divergence import check_finite
from cemlib.numerics.optim import Adam, Optimiser, Rate, one_cycle
from cemlib.numerics.precision import autocast, resolve
from cemlib.numerics.replay import Replay
from cemlib.numerics.seeds import derive, generator
from cemlib.numerics.sums import Sums
from cemlib.records.checkpoint import Part, Resumed, State, restore_training, training_state

CHUNK = 512
RECOGNISED = 500  # held-out images whose reconstructions the judge classifies after every epoch

Numbers = dict[str, Tensor]


@dataclass(frozen=True)
class Batch:
    """The input of one training step."""

    released: Tensor  # new releases (B, c, h, w)
    targets: Tensor  # their images (B, C, H, W) in [0, 1]
    lr: Rate
    kind: Hashable  # the value of `Training.kind`


class Training:
    """A decoder in training; subclasses implement `step`.

    `parts` are the trained modules and optimisers, by their names in the checkpoint. `generators`
    are the random generators that a step draws from, by the names of their streams. `history` has a
    row for every finished epoch, of `steps` steps.
    """

    def __init__(self, task: Task, model: nn.Module, optimiser: Optimiser) -> None:
        self.task, self.options = task, task.options
        self.device = task.own.features.device
        self.model, self.optimiser = model, optimiser
        self.parts: dict[str, Part] = {"model": model, "optimiser": optimiser}
        self.generators = {"attack_noise": torch.Generator(self.device)}
        self.history: list[dict[str, Any]] = []
        self._shuffle = Shuffle(len(task.own.images), self.options["batch_size"], self.device)
        self.steps = len(self._shuffle.sizes)
        self._sums = Sums()
        self._replays: dict[Hashable, Replay] = defaultdict(
            partial(Replay, self.device, self.generators.values)
        )

    def rate(self, count: int) -> float:
        """Return the learning rate of step `count`, from 1: constant, or a cosine to `final_lr`."""
        first, epochs = self.options["lr"], self.options["epochs"]
        last: float = self.options.get("final_lr", first)
        done = (count - 1) // self.steps / max(1, epochs - 1)
        return last + one_cycle(done, first - last, warm_up=0.0)

    def kind(self, count: int) -> Hashable:  # noqa: ARG002 - here all steps are of one kind
        """Return the kind of step number `count` (from 1); all of one kind run the same kernels."""
        return None

    def step(self, batch: Batch) -> Numbers:
        """Train on a batch, and return detached scalars for the history."""
        raise NotImplementedError

    def train(self) -> float:
        """Train the remaining epochs, and return the held-out MSE.

        Raises:
            DivergedError: if a number of the history is not finite.
        """
        resumed, shown = Resumed(self, self.task.checkpoint), ("train_mse", "val_mse")
        with self.task.checkpoint.written_when_interrupted():
            for _ in resumed.remaining(self.task.title, self.options["epochs"], shown):
                pass
        return float(self.history[-1]["val_mse"])

    def state(self) -> State:
        """Return a copy of everything that a checkpoint holds besides the history."""
        return training_state(self.parts), {}

    def restore(self, tensors: Numbers, _state: dict[str, Any]) -> None:
        """Continue from the `state` of a checkpoint."""
        restore_training(tensors, self.parts)

    def outcome(self) -> Outcome:
        """Return the reconstructions of all releases of the task."""
        answers = self.answer(self.task.released)
        return Outcome(answers, self.model.state_dict(), self.history)

    def answer(self, released: Tensor) -> Tensor:
        """Decode releases (N, c, h, w) to images (N, C, H, W), in eval mode."""
        self.model.eval()
        with torch.no_grad():
            return torch.cat([self.model(part) for part in torch.split(released, CHUNK)])

    def precision(self) -> torch.autocast:
        """Return the context of forward passes with the option `precision`."""
        return autocast(resolve(self.options["precision"], self.device), self.device)

    def epoch(self, number: int) -> dict[str, Any]:
        """Train one 1-based epoch, and return its row of the history."""
        start = time.perf_counter()
        numbers = self.pass_over(number) | self._held_out()
        check_finite(number, **numbers)
        lr = self.rate(number * self.steps)
        row = {"epoch": number, "lr": lr, **numbers, "seconds": time.perf_counter() - start}
        self.history.append(row)
        return row

    def pass_over(self, number: int) -> dict[str, float]:
        """Do the training steps of an epoch, and return the means of their scalars."""
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
        _, rows = self._shuffle.take(size)
        released = self.task.release(self.task.own.features[rows], self.generators["attack_noise"])
        released = released.contiguous(memory_format=torch.channels_last)
        numbers = self.step(Batch(released, self.task.own.targets(rows), lr, kind))
        self._sums.add(numbers, size)

    def _held_out(self) -> dict[str, float]:
        """Return the MSE and the judge's accuracy on held-out images, released alike each time."""
        held_out = self.task.held_out
        noise = generator(self.task.seed, "attack_val_noise", device=self.device)
        answers = self.answer(self.task.release(held_out.features, noise))
        with torch.no_grad():
            found = self.task.judge(answers[:RECOGNISED]).argmax(1)
        right = (found == held_out.labels[:RECOGNISED]).float().mean()
        mse = F.mse_loss(answers, held_out.targets())
        return {"val_mse": mse.item(), "val_recon_top1": right.item()}


class Regression(Training):
    """A new decoder that minimises an objective, here the MSE, by Adam with an L2 term."""

    def __init__(self, task: Task) -> None:
        torch.manual_seed(derive(task.seed, "attacker"))
        shapes = task.own.features.shape[1:], task.image_shape
        masked = task.victim.channel.masks
        model = untrained(task.options, *shapes, task.class_maps, masked=masked)
        model = model.to(task.own.features.device).to(memory_format=torch.channels_last)
        optimiser = Adam(model.parameters(), weight_decay=task.options["weight_decay"])
        super().__init__(task, model, optimiser)

    def step(self, batch: Batch) -> Numbers:
        """Train on a batch."""
        self.model.train()
        loss, numbers = self.loss(batch)
        self.optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimiser.step(batch.lr)
        return numbers

    def loss(self, batch: Batch) -> tuple[Tensor, Numbers]:
        """Return the loss of a batch, and detached scalars for the history."""
        with self.precision():
            answers = self.model(batch.released)
        return self.objective(answers.float(), batch.targets)

    def objective(self, answers: Tensor, targets: Tensor) -> tuple[Tensor, Numbers]:
        """Return the loss of float32 answers (B, C, H, W), and scalars with `train_mse`."""
        mse = F.mse_loss(answers, targets)
        return mse, {"train_mse": mse.detach()}


def learn(task: Task, begin: Callable[[Task], Training]) -> Outcome:
    """Carry out a learned attack with the budget of its options.

    `begin` returns the training of a task, and is also called for every trial of a strong budget.

    Raises:
        DivergedError: if a loss is not finite, or that of every trial.
    """
    training = begin(strengthened(task, lambda trial: begin(trial).train()))
    training.train()
    return training.outcome()
