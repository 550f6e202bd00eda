"""White-box optimisation of the image itself, through the client and the release channel.

He, Zhang and Lee, "Model inversion attacks against collaborative inference", ACSAC 2019, section 4:
regularised maximum likelihood. For each release, `Descent` moves an image, from grey or from a
trained decoder's answer, towards what the client would release as much, and towards smoothness.

The maximum likelihood fits the noise too, so that more steps are not always better: the attacker
tries the whole on its held-out images, where it knows the truth, and takes as many steps as were
best there. With `budget: strong` it takes up to three times as many, with the learning rate and the
weight of the total variation that were best in trials of the configured number of steps.

What the client does not tell is left to the start and to the total variation: a trained decoder
knows more about images than these do. The best weight rises with the variance of the noise, and is
lower from a good start than from grey; from grey, the client's ReLUs and maxima leave it in local
minima, so that an undefended client can look safer than it is.
"""

import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from itertools import product
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from cemlib.attacks.budget import EPOCHS, RATES
from cemlib.attacks.descent import Descent, Settings
from cemlib.attacks.task import Outcome, Task
from cemlib.numerics.divergence import check_finite
from cemlib.numerics.seeds import generator
from cemlib.records.progress import progress

HELD_OUT = 256  # images that decide the number of steps
TRIED = 64  # of them, those that decide the settings of the strong attack
CHECKPOINTS = 25
WEIGHTS = (0.0, 0.1, 1.0, 10.0)  # tried for the total variation, in units of the configured one

Row = dict[str, Any]


def optimisation(task: Task) -> Outcome:
    """Choose the settings on held-out images, then answer every release with them.

    Raises:
        DivergedError: if a misfit is no longer a number.
    """
    task.victim.model.eval()
    search = _Search(task)
    search.resume()
    with task.checkpoint.written_when_interrupted():
        settings = search.settings or search.choose()
        answers = search.answer(settings)
    state = {name: torch.tensor(value) for name, value in asdict(settings).items()}
    return Outcome(answers, state, search.history)


def checkpoints(iterations: int) -> list[int]:
    """Return the numbers of steps to look at, from 0 to `iterations`.

    Evenly spaced, with the powers of two before the first: from a good start and through much noise
    the best answer is a few steps away.
    """
    even = {round(iterations * i / CHECKPOINTS) for i in range(CHECKPOINTS + 1)}
    early = {2**i for i in range(iterations.bit_length()) if 2**i < iterations / CHECKPOINTS}
    return sorted(even | early)


class _Search:
    """The choice of the settings and the answers, with what a killed job keeps of them."""

    def __init__(self, task: Task) -> None:
        self.task, self.options = task, task.options
        self.settings: Settings | None = None
        self.history: list[Row] = []
        self._answers: list[Tensor] = []

    def choose(self) -> Settings:
        """Decide on settings by the error on held-out images, released like the targets."""
        options, (truth, released) = self.options, _rehearsal(self.task)
        tried = Settings(options["iterations"], options["lr"], options["tv_weight"])
        if options["budget"] == "strong":
            best = self._best_of(_variants(tried), truth[:TRIED], released[:TRIED])
            tried = replace(best, steps=EPOCHS * options["iterations"])
        marks = checkpoints(tried.steps)
        with progress(f"{self.task.title}, held-out images", len(marks)) as report:
            for number, row in enumerate(_course(self.task, tried, truth, released), 1):
                self.history.append(row)
                report(number, {"misfit": row["misfit"], "val_mse": row["val_mse"]})
        best_row = min(self.history, key=_val_mse)
        self.settings = replace(tried, steps=best_row["epoch"])
        self._keep(self.settings)
        return self.settings

    def _best_of(self, trials: list[Settings], truth: Tensor, released: Tensor) -> Settings:
        errors = []
        with progress(f"{self.task.title}, settings", len(trials)) as report:
            for number, trial in enumerate(trials, 1):
                errors.append(min(map(_val_mse, _course(self.task, trial, truth, released))))
                numbers = {"lr": trial.lr, "tv_weight": trial.tv_weight, "val_mse": errors[-1]}
                report(number, numbers)
        return trials[errors.index(min(errors))]

    def answer(self, settings: Settings) -> Tensor:
        """Return images (N, C, H, W) of all releases, chunk by chunk."""
        chunks = torch.split(self.task.released, self.options["batch_size"])
        done = len(self._answers)
        with progress(self.task.title, len(chunks), done) as report:
            for number, released in enumerate(chunks[done:], done + 1):
                descent = Descent(self.task, released, settings)
                descent.go_on(settings.steps)
                misfit = _mean_misfit([descent], settings.steps)
                self._answers.append(descent.images.detach().contiguous())
                self._keep(settings)
                report(number, {"misfit": misfit})
        return torch.cat(self._answers)

    def _keep(self, settings: Settings) -> None:
        answers = {str(number): part for number, part in enumerate(self._answers)}
        state = {"settings": asdict(settings), "history": self.history}
        self.task.checkpoint.keep((answers, state))

    def resume(self) -> None:
        """Take over what a killed job left, if there is anything."""
        found = self.task.checkpoint.load()
        if found is not None:
            answers, state = found
            self.settings, self.history = Settings(**state["settings"]), state["history"]
            device = self.task.released.device
            self._answers = [answers[str(i)].to(device) for i in range(len(answers))]


def _rehearsal(task: Task) -> tuple[Tensor, Tensor]:
    """Return some held-out images and what the channel releases of them."""
    count = len(task.held_out.images)
    order = torch.randperm(count, generator=generator(task.seed, "attack_order"))
    rows = order[:HELD_OUT].to(task.released.device)
    noise = generator(task.seed, "attack_val_noise")
    return task.held_out.targets(rows), task.release(task.held_out.features[rows], noise)


def _variants(settings: Settings) -> list[Settings]:
    lr, weight = settings.lr, settings.tv_weight
    factors = product(RATES, WEIGHTS)
    tried = (replace(settings, lr=a * lr, tv_weight=b * weight) for a, b in factors)
    return list(dict.fromkeys(tried))  # a configured weight of 0 has no multiples


def _course(task: Task, settings: Settings, truth: Tensor, released: Tensor) -> Iterator[Row]:
    """Yield a row at each checkpoint of a descent on images that the attacker knows."""
    chunks = torch.split(released, task.options["batch_size"])
    descents = [Descent(task, part, settings) for part in chunks]
    for steps in checkpoints(settings.steps):
        start = time.perf_counter()
        for descent in descents:
            descent.go_on(steps)
        misfit = _mean_misfit(descents, steps)
        images = torch.cat([descent.images.detach() for descent in descents])
        yield {
            "epoch": steps,
            "lr": settings.lr,
            "train_mse": None,
            "val_mse": F.mse_loss(images, truth).item(),
            "misfit": misfit,
            "seconds": time.perf_counter() - start,
        }


def _mean_misfit(descents: list[Descent], steps: int) -> float:
    with torch.no_grad():
        misfit = torch.cat([descent.misfit() for descent in descents]).mean().item()
    check_finite(steps, misfit=misfit)
    return misfit


def _val_mse(row: Row) -> float:
    return float(row["val_mse"])
