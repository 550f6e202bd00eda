"""A trained decoder, trained on against a critic that tells its answers from images.

A Wasserstein GAN with gradient penalty (Gulrajani et al., NeurIPS 2017) whose generator G is the
decoder of another attack, so that its answers look like images and stay near the right ones:

    critic:     mean D(G(z~)) - mean D(x) + gradient_penalty * penalty      at every batch
    generator:  -mean D(G(z~)) + mse_weight * MSE(G(z~), x)                 at every n-th batch

with n = `critic_steps`, counted across epochs, and Adam(0.5, 0.999) at constant rates for both. The
critic sees images only, not features. The last epoch is scored. The penalty is taken between an
image and its own reconstruction. The MSE is not what this attack is after and may rise a little.
"""

import copy
import math
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional as F

from cemlib.attacks.budget import budgeted
from cemlib.attacks.critic import Critic, gradient_penalty
from cemlib.attacks.learning import Batch, Numbers, Training
from cemlib.attacks.task import Outcome, Task
from cemlib.numerics.divergence import DivergedError
from cemlib.numerics.optim import Adam, Rate
from cemlib.numerics.seeds import derive

BETAS = (0.5, 0.999)


def gan(task: Task) -> Outcome:
    """Train the decoder on against a critic, then answer every release.

    A strong budget is longer, with a wider critic; the held-out MSE says nothing of which learning
    rate serves the critic, so there are no trials.

    Raises:
        DivergedError: if a loss is no longer a number, or the generator would never take a step.
        ValueError: if the task has no trained decoder to start from.
    """
    training = _Gan(replace(task, options=budgeted(task.options)))
    training.train()
    return training.outcome()


class _Gan(Training):
    def __init__(self, task: Task) -> None:
        if task.start is None:
            raise ValueError(
                f"start: gan trains a decoder on, found none of {task.options['start']!r}"
            )
        _check_learns(task)
        device = task.own.features.device
        model = copy.deepcopy(task.start).requires_grad_(True)
        model = model.to(device).to(memory_format=torch.channels_last)
        self.optimiser = Adam(model.parameters(), betas=BETAS)
        super().__init__(task, model, self.optimiser)
        torch.manual_seed(derive(task.seed, "critic"))
        self.critic = Critic(task.image_shape, task.options["critic_width"]).to(device)
        self.critic_optimiser = Adam(self.critic.parameters(), betas=BETAS)
        self.parts["critic"] = (self.critic, self.critic_optimiser)
        self.generators["attack_mixtures"] = torch.Generator(self.device)

    def kind(self, count: int) -> bool:
        """Return whether it is the generator's turn."""
        return bool(count % self.options["critic_steps"] == 0)

    def step(self, batch: Batch) -> Numbers:
        """Train the critic, and at every n-th batch the generator."""
        self.model.train()
        turn = bool(batch.kind)
        with torch.set_grad_enabled(turn), self.precision():
            answers = self.model(batch.released)
        answers = answers.float()
        numbers = self._teach_critic(answers.detach(), batch)
        mse = F.mse_loss(answers, batch.targets)
        if turn:
            self._teach_generator(answers, mse, batch.lr)
        return {"train_mse": mse.detach(), **numbers}

    def _teach_critic(self, fake: Tensor, batch: Batch) -> Numbers:
        real = batch.targets
        with self.precision():
            scores = self.critic(torch.cat([real, fake]))
        of_real, of_fake = scores.float().chunk(2)
        distance = of_real.mean() - of_fake.mean()
        # Half precision would round the slope's own slope.
        penalty = gradient_penalty(self.critic, real, fake, self._shares(len(real)))
        loss = self.options["gradient_penalty"] * penalty - distance
        self.critic_optimiser.zero_grad()
        loss.backward()
        self.critic_optimiser.step(self.options["critic_lr"])
        return {"critic_loss": loss.detach(), "wasserstein": distance.detach()}

    def _shares(self, size: int) -> Tensor:
        """Draw the shares of the real images in the mixtures of a batch."""
        draws = self.generators["attack_mixtures"]
        return torch.rand((size, 1, 1, 1), generator=draws, device=self.device)

    def _teach_generator(self, answers: Tensor, mse: Tensor, lr: Rate) -> None:
        self.critic.requires_grad_(False)  # only the way through it is needed
        with self.precision():
            scores = self.critic(answers)
        loss = self.options["mse_weight"] * mse - scores.float().mean()
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step(lr)
        self.critic.requires_grad_(True)


def _check_learns(task: Task) -> None:
    options = task.options
    batches = options["epochs"] * math.ceil(len(task.own.images) / options["batch_size"])
    if batches < options["critic_steps"]:
        raise DivergedError(
            f"{batches} batches in all are fewer than critic_steps ({options['critic_steps']}): the"
            " generator would never take a step; raise epochs or lower critic_steps"
        )
