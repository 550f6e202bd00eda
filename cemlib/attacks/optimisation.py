"""White-box optimisation of the image itself, through the client and the release channel.

He, Zhang and Lee, "Model inversion attacks against collaborative inference", ACSAC 2019, section 4:
regularised maximum likelihood. For each release z~, Adam (Kingma and Ba, ICLR 2015) minimises over
images x in [0, 1], projected after every step,

    loss = misfit(f(x), z~) / d + w TV(x),   w = tv_weight max(s / 0.025, 1)^2,   d features of f

from grey or from the answer of a trained decoder. The misfit is that of the channel, and TV the
mean squared difference of vertical neighbours plus that of horizontal ones, with the exponent 2 of
the authors' code. Both are means, so that a weight has the same meaning for all sizes. The noisier
a release, the more the prior counts: s^2 is the variance of the additive noise on the mean release.
With `denoiser_weight` a trained denoiser is a second prior: see `cemlib.attacks.denoiser`.

The maximum likelihood also fits the noise, so more steps are not always better: the attacker first
inverts releases of its held-out images, and uses the number of steps that was best there. With
`budget: strong` it takes up to three times as many steps, with the learning rate and the multiple
of the configured weights that were best in trials of the configured number of steps.

How it fails: what the release does not reveal comes from the start and the priors. The best weight
of the total variation is lower from the answer of a decoder than from grey. From grey, ReLUs and
max pools of the client leave the attack in local minima, so that an undefended client can look
safer than it is.
"""

import math
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cemlib.attacks.budget import EPOCHS, RATES
from cemlib.attacks.denoiser import denoiser, posterior_weight, prior
from cemlib.attacks.task import Outcome, Task
from cemlib.numerics.divergence import check_finite
from cemlib.numerics.optim import Adam
from cemlib.numerics.replay import Replay
from cemlib.numerics.seeds import generator
from cemlib.records.progress import progress

HELD_OUT = 256  # images that decide the number of steps
TRIED = 64  # of these, the images that decide the settings of the strong attack
CHECKPOINTS = 25
NOISE = 0.025  # standard deviation up to which `tv_weight` is the weight itself
WEIGHTS = (1.0, 0.0, 0.1, 10.0)  # multiples of the priors' weights; the configured ones win a tie

Row = dict[str, Any]


def total_variation(images: Tensor) -> Tensor:
    """Return TV (N,) of images (N, C, H, W) with at least two pixels a side."""
    down, right = (images.diff(dim=side).square().flatten(1).mean(1) for side in (2, 3))
    return down + right


@dataclass(frozen=True)
class Settings:
    """The settings with which all releases are inverted."""

    steps: int
    lr: float
    tv_weight: float
    denoiser_weight: float = 0.0  # of the prior itself: the option times `posterior_weight`


class Descent:
    """Adam on the images of some releases, each independently of the others.

    `images` (N, C, H, W) in [0, 1] are those after `done` steps.
    """

    def __init__(
        self, task: Task, released: Tensor, settings: Settings, denoise: nn.Module | None = None
    ) -> None:
        self._task, self._released, self._settings = task, released, settings
        self._denoise = denoise
        start = _start(task, released).contiguous(memory_format=torch.channels_last)
        self.images = nn.Parameter(start)
        self.done = 0
        self._optimiser = Adam([self.images])
        self._replay = Replay(start.device, list)

    def misfit(self) -> Tensor:
        """Return the misfit per feature of each image, (N,)."""
        victim = self._task.victim
        features: Tensor = victim.model.encoder(self.images)
        misfit = victim.channel.misfit(features, self._released, self._task.queries)
        return misfit / features[0].numel()

    def run_until(self, steps: int) -> None:
        """Continue until the given number of steps is done."""
        for _ in range(steps - self.done):
            self._replay(self._step, None)
        self.done = steps

    def _step(self) -> None:
        loss = self.misfit() + self._settings.tv_weight * total_variation(self.images)
        if self._denoise is not None:
            loss = loss + self._settings.denoiser_weight * prior(self.images, self._denoise)
        self._optimiser.zero_grad()
        # With a sum, the path of an image does not depend on the size of the batch.
        loss.sum().backward(inputs=[self.images])  # type: ignore[no-untyped-call]
        self._optimiser.step(self._settings.lr)
        self.images.data.clamp_(0, 1)


def _start(task: Task, released: Tensor) -> Tensor:
    if task.start is None:
        return torch.full((len(released), *task.image_shape), 0.5, device=released.device)
    with torch.no_grad():
        answers: Tensor = task.start(released)
    return answers.clamp(0, 1)


def optimisation(task: Task) -> Outcome:
    """Choose the settings on held-out images, then reconstruct every release with them.

    Raises:
        DivergedError: if a misfit, or the loss of the denoiser, is not finite.
    """
    task.victim.model.eval()
    search = _Search(task)
    with task.checkpoint.written_when_interrupted():
        settings = search.settings or search.choose()
        answers = search.answer(settings)
    state = {name: torch.tensor(value) for name, value in asdict(settings).items()}
    return Outcome(answers, state, search.history)


def checkpoints(iterations: int) -> list[int]:
    """Return the numbers of steps after which the error is measured, from 0 to `iterations`.

    They are evenly spaced, with the powers of two before the first: from a good start and with much
    noise, a few steps are best.
    """
    even = {round(iterations * i / CHECKPOINTS) for i in range(CHECKPOINTS + 1)}
    early = {2**i for i in range(iterations.bit_length()) if 2**i < iterations / CHECKPOINTS}
    return sorted(even | early)


class _Search:
    """The choice of the settings, and the reconstructions; a killed attack can resume."""

    def __init__(self, task: Task) -> None:
        self.task, self.options = task, task.options
        self.settings: Settings | None = None
        self.history: list[Row] = []
        self._answers: list[Tensor] = []
        found = task.checkpoint.load()
        if found is not None:
            answers, state = found
            self.settings, self.history = Settings(**state["settings"]), state["history"]
            device = task.released.device
            self._answers = [answers[str(i)].to(device) for i in range(len(answers))]

    def choose(self) -> Settings:
        options, (truth, released) = self.options, _held_out(self.task)
        unit = posterior_weight(self.task, options["denoiser_noise"])
        noise = self.task.victim.channel.std / math.sqrt(self.task.queries)
        tv_weight = options["tv_weight"] * max(noise / NOISE, 1) ** 2
        weights = tv_weight, options["denoiser_weight"] * unit
        tried = Settings(options["iterations"], options["lr"], *weights)
        if options["budget"] == "strong":
            best = self._best_of(_variants(tried), truth[:TRIED], released[:TRIED])
            tried = replace(best, steps=EPOCHS * options["iterations"])
        total = len(checkpoints(tried.steps))
        report = progress(f"{self.task.title}, held-out images", total, unit="checkpoint")
        for number, row in enumerate(self._descend(tried, truth, released), 1):
            self.history.append(row)
            report(number, {"misfit": row["misfit"], "val_mse": row["val_mse"]})
        best_row = min(self.history, key=lambda row: float(row["val_mse"]))
        self.settings = replace(tried, steps=best_row["epoch"])
        self._keep(self.settings)
        return self.settings

    def _best_of(self, trials: list[Settings], truth: Tensor, released: Tensor) -> Settings:
        errors = []
        report = progress(self.task.title, len(trials), unit="setting")
        for number, trial in enumerate(trials, 1):
            rows = self._descend(trial, truth, released)
            errors.append(min(float(row["val_mse"]) for row in rows))
            shown = {name: value for name, value in asdict(trial).items() if name != "steps"}
            report(number, shown | {"val_mse": errors[-1]})
        return trials[errors.index(min(errors))]

    def _descend(self, settings: Settings, truth: Tensor, released: Tensor) -> Iterator[Row]:
        """Yield a row at each of the `checkpoints` of a descent on known images."""
        chunks = torch.split(released, self.options["batch_size"])
        descents = [self._descent(part, settings) for part in chunks]
        for steps in checkpoints(settings.steps):
            start = time.perf_counter()
            for descent in descents:
                descent.run_until(steps)
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

    def _descent(self, released: Tensor, settings: Settings) -> Descent:
        denoise = self._denoiser if settings.denoiser_weight else None
        return Descent(self.task, released, settings, denoise)

    @cached_property
    def _denoiser(self) -> nn.Module:
        return denoiser(self.task, self.options["denoiser_noise"])

    def answer(self, settings: Settings) -> Tensor:
        chunks = torch.split(self.task.released, self.options["batch_size"])
        done = len(self._answers)
        report = progress(self.task.title, len(chunks), done, unit="batch")
        for number, released in enumerate(chunks[done:], done + 1):
            descent = self._descent(released, settings)
            descent.run_until(settings.steps)
            misfit = _mean_misfit([descent], settings.steps)
            self._answers.append(descent.images.detach().contiguous())
            self._keep(settings)
            report(number, {"misfit": misfit})
        return torch.cat(self._answers)

    def _keep(self, settings: Settings) -> None:
        answers = {str(number): part for number, part in enumerate(self._answers)}
        state = {"settings": asdict(settings), "history": self.history}
        self.task.checkpoint.keep((answers, state))


def _held_out(task: Task) -> tuple[Tensor, Tensor]:
    count = len(task.held_out.images)
    order = torch.randperm(count, generator=generator(task.seed, "attack_order"))
    rows = order[:HELD_OUT].to(task.released.device)
    noise = generator(task.seed, "attack_val_noise")
    return task.held_out.targets(rows), task.release(task.held_out.features[rows], noise)


def _variants(settings: Settings) -> list[Settings]:
    tried = (
        replace(
            settings,
            lr=a * settings.lr,
            tv_weight=b * settings.tv_weight,
            denoiser_weight=b * settings.denoiser_weight,
        )
        for a, b in product(RATES, WEIGHTS)
    )
    return list(dict.fromkeys(tried))  # a configured weight of 0 has no multiples


def _mean_misfit(descents: list[Descent], steps: int) -> float:
    with torch.no_grad():
        misfit = torch.cat([descent.misfit() for descent in descents]).mean().item()
    check_finite(steps, misfit=misfit)
    return misfit
