"""A residual decoder trained on released features: the standard learned inversion attack.

Architecture and schedule of the attack in Xia et al., CVPR 2025 ("res_normN8C64"): Adam with an L2
term, a cosine to the last epoch, mean squared error on images in [0, 1], fresh release noise in
every batch. The last epoch is scored, and the decoder is in eval mode whenever it is.
"""

import math
import time
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from cemlib.attacks.task import Outcome, Pairs, Task
from cemlib.checkpoint import restore_training, training_state
from cemlib.errors import check_finite
from cemlib.models.decoder import Decoder
from cemlib.optim import Adam
from cemlib.progress import progress
from cemlib.seeds import derive, generator

CHUNK = 512


def decoder(task: Task) -> Outcome:
    """Train the decoder on the attacker's pairs, then answer every release.

    Raises:
        DivergedError: if its loss is no longer a number.
    """
    training = _Training(task)
    training.resume()
    epochs, done = task.options["epochs"], len(training.history)
    with progress(task.title, epochs, done) as report:
        for number in range(done + 1, epochs + 1):
            row = training.epoch(number)
            if task.checkpoint.due():
                training.save()
            report(number, {"train_mse": row["train_mse"], "val_mse": row["val_mse"]})
    answers = training.answer(task.released)
    return Outcome(answers, training.model.state_dict(), training.history)


def cosine(epoch: int, epochs: int, first: float, last: float) -> float:
    """Learning rate of a 1-based epoch, on half a cosine from `first` to `last`."""
    done = (epoch - 1) / max(1, epochs - 1)
    return last + (first - last) * (1 + math.cos(math.pi * done)) / 2


class _Training:
    def __init__(self, task: Task) -> None:
        self.task, self.options = task, task.options
        self.device = task.own.features.device
        side = task.own.features.shape[-1]
        torch.manual_seed(derive(task.seed, "attacker"))
        model = Decoder(
            task.own.features.shape[1],
            task.image_shape,
            blocks=self.options["blocks"],
            width=self.options["width"],
            doublings=round(math.log2(task.image_shape[-1] / side)),
        )
        self.model = model.to(self.device).to(memory_format=torch.channels_last)
        weight_decay = self.options["weight_decay"]
        self.optimiser = Adam(self.model.parameters(), weight_decay=weight_decay)
        self.history: list[dict[str, Any]] = []

    def epoch(self, number: int) -> dict[str, Any]:
        start = time.perf_counter()
        options = self.options
        lr = cosine(number, options["epochs"], options["lr"], options["final_lr"])
        row = {"epoch": number, "lr": lr, "train_mse": self._pass(number, lr)}
        row["val_mse"] = self._held_out(number)
        check_finite(number, train_mse=row["train_mse"], val_mse=row["val_mse"])
        row["seconds"] = time.perf_counter() - start
        self.history.append(row)
        return row

    def _pass(self, number: int, lr: float) -> float:
        own, seed = self.task.own, self.task.seed
        noise = generator(seed, "attack_noise", number)
        order = torch.randperm(len(own.images), generator=generator(seed, "attack_order", number))
        total, seen = torch.zeros((), device=self.device), 0
        for rows in torch.split(order.to(self.device), self.options["batch_size"]):
            if len(rows) > 1:  # batch normalisation has no statistics of one 1x1 sample
                total += self._step(own, rows, noise, lr) * len(rows)
                seen += len(rows)
        return total.item() / seen

    def _step(self, own: Pairs, rows: Tensor, noise: torch.Generator, lr: float) -> Tensor:
        self.model.train()
        released = self.task.release(own.features[rows], noise)
        low = self.options["precision"] == "bfloat16"
        with torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=low):
            answers = self.model(released.contiguous(memory_format=torch.channels_last))
        loss = F.mse_loss(answers.float(), own.targets(rows))
        self.optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimiser.step(lr)
        return loss.detach()

    def _held_out(self, number: int) -> float:
        held_out = self.task.held_out
        noise = generator(self.task.seed, "attack_val_noise", number)
        answers = self.answer(self.task.release(held_out.features, noise))
        return F.mse_loss(answers, held_out.targets()).item()

    def answer(self, released: Tensor) -> Tensor:
        self.model.eval()
        with torch.no_grad():
            return torch.cat([self.model(part) for part in torch.split(released, CHUNK)])

    def save(self) -> None:
        tensors = training_state({"model": self.model}, self.optimiser)
        self.task.checkpoint.save(tensors, {"history": self.history})

    def resume(self) -> None:
        found = self.task.checkpoint.load()
        if found is not None:
            tensors, state = found
            restore_training(tensors, {"model": self.model}, self.optimiser)
            self.history = state["history"]
