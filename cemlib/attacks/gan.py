"""A GAN attack: a trained decoder is trained further against a critic of its reconstructions.

A Wasserstein GAN with gradient penalty (Gulrajani, Ahmed, Arjovsky, Dumoulin and Courville,
"Improved training of Wasserstein GANs", NeurIPS 2017), whose generator G is the decoder of another
attack, so that its answers look like images and stay near the right ones:

    critic:     mean D(G(z~)) - mean D(x) + gradient_penalty * penalty      at every batch
    generator:  -mean D(G(z~)) + mse_weight * MSE(G(z~), x)                 at every n-th batch
    penalty  =  mean (|d D(m) / d m| - 1)^2,   m on the line between an image x and its G(z~)

with n = `critic_steps`, counted across epochs, and Adam(0.5, 0.999) at constant rates for both. The
critic sees images only, not features, and scores each image by itself, since it has no batch
normalisation. The MSE is not minimised, and may rise a little.
"""

import copy
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cemlib.attacks.budget import budgeted
from cemlib.attacks.learning import Batch, Numbers, Training
from cemlib.attacks.task import Outcome, Task
from cemlib.models.decoder import make_trainable
from cemlib.numerics.divergence import DivergedError
from cemlib.numerics.optim import Adam, Rate
from cemlib.numerics.seeds import derive

BETAS = (0.5, 0.999)
SLOPE = 0.2  # of the critic's leaky ReLUs


class Critic(nn.Module):
    """Critic from images of `image_shape` (C, H, W) to scores.

    It has three 5x5 convolutions with stride 2, to `width`, 2 `width` and 4 `width` channels, and a
    linear layer.
    """

    def __init__(self, image_shape: tuple[int, int, int], width: int) -> None:
        super().__init__()
        channels, height, side = image_shape
        layers: list[nn.Module] = []
        for out in (width, 2 * width, 4 * width):
            height, side = (height + 1) // 2, (side + 1) // 2
            layers += [nn.Conv2d(channels, out, 5, stride=2, padding=2)]
            if height * side > 1:  # a single pixel has no variance
                layers += [nn.InstanceNorm2d(out, affine=True)]
            layers += [nn.LeakyReLU(SLOPE)]
            channels = out
        self.layers = nn.Sequential(*layers, nn.Flatten(), nn.Linear(channels * height * side, 1))

    def forward(self, images: Tensor) -> Tensor:
        """Return unbounded scores (B,) of images (B, C, H, W), higher for real ones."""
        scores: Tensor = self.layers(images)
        return scores.squeeze(1)


def gradient_penalty(critic: nn.Module, real: Tensor, fake: Tensor, share: Tensor) -> Tensor:
    """Return the mean squared deviation of the critic's slope from 1, at mixtures of images.

    The images are (B, C, H, W); `share`, (B, 1, 1, 1) in [0, 1], is that of the real image.
    """
    mixed = torch.lerp(fake.detach(), real, share).requires_grad_()
    (slope,) = torch.autograd.grad(critic(mixed).sum(), mixed, create_graph=True)
    lengths: Tensor = slope.flatten(1).norm(dim=1)
    return (lengths - 1).square().mean()


def gan(task: Task) -> Outcome:
    """Train the decoder against a critic, then reconstruct every release.

    A strong budget trains longer, with a wider critic, but without trials: the held-out MSE does
    not show which learning rate is best.

    Raises:
        DivergedError: if a loss is not finite, or the generator would never take a step.
    """
    training = _Gan(replace(task, options=budgeted(task.options)))
    training.train()
    return training.outcome()


class _Gan(Training):
    def __init__(self, task: Task) -> None:
        assert task.start is not None  # its section always names one
        device = task.own.features.device
        model = copy.deepcopy(task.start)
        make_trainable(model)
        model = model.to(device).to(memory_format=torch.channels_last)
        super().__init__(task, model, Adam(model.parameters(), betas=BETAS))
        batches, least = self.options["epochs"] * self.steps, self.options["critic_steps"]
        if batches < least:
            raise DivergedError(
                f"{batches} batches in all are fewer than critic_steps ({least}): the generator"
                " would never be trained; raise epochs or lower critic_steps"
            )
        torch.manual_seed(derive(task.seed, "critic"))
        self.critic = Critic(task.image_shape, task.options["critic_width"]).to(device)
        self.critic_optimiser = Adam(self.critic.parameters(), betas=BETAS)
        self.parts |= {"critic": self.critic, "critic_optimiser": self.critic_optimiser}
        self.generators["attack_mixtures"] = torch.Generator(self.device)

    def kind(self, count: int) -> bool:
        """Return whether the generator is trained in this step."""
        return bool(count % self.options["critic_steps"] == 0)

    def step(self, batch: Batch) -> Numbers:
        self.model.train()
        turn = bool(batch.kind)
        with torch.set_grad_enabled(turn), self.precision():
            answers = self.model(batch.released)
        answers = answers.float()
        numbers = self._train_critic(answers.detach(), batch)
        mse = F.mse_loss(answers, batch.targets)
        if turn:
            self._train_generator(answers, mse, batch.lr)
        return {"train_mse": mse.detach(), **numbers}

    def _train_critic(self, fake: Tensor, batch: Batch) -> Numbers:
        real = batch.targets
        with self.precision():
            scores = self.critic(torch.cat([real, fake]))
        of_real, of_fake = scores.float().chunk(2)
        distance = of_real.mean() - of_fake.mean()
        draws = self.generators["attack_mixtures"]
        share = torch.rand((len(real), 1, 1, 1), generator=draws, device=self.device)
        # Half precision would round the second derivative.
        penalty = gradient_penalty(self.critic, real, fake, share)
        loss = self.options["gradient_penalty"] * penalty - distance
        self.critic_optimiser.zero_grad()
        loss.backward()
        self.critic_optimiser.step(self.options["critic_lr"])
        return {"critic_loss": loss.detach(), "wasserstein": distance.detach()}

    def _train_generator(self, answers: Tensor, mse: Tensor, lr: Rate) -> None:
        self.critic.requires_grad_(False)  # only its input needs a gradient
        with self.precision():
            scores = self.critic(answers)
        loss = self.options["mse_weight"] * mse - scores.float().mean()
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step(lr)
        self.critic.requires_grad_(True)
