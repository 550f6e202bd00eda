"""The training steps of an epoch, from the loop over its batches to the update of the weights.

For images x with labels y, a surrogate R and a training penalty P, a step minimises

    loss = CE(head(z~), y) + R(shape(z), y) + P(x, y, z, z~),   z = encoder(x),   z~ = channel(z)

where `shape` is the deterministic part of the channel. The gradient of R is multiplied by
lambda_eff at the features, but not at the parameters of R.

A step never waits for the device, loops over no samples or classes, and updates its tensors in
place, so that on a GPU it can be replayed as a CUDA graph.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cemlib.config.defences import PruningConfig
from cemlib.config.study import TrainConfig
from cemlib.data.batches import Batches
from cemlib.defences.deployed import Deployed
from cemlib.defences.penalties.base import Penalty
from cemlib.numerics.optim import SGD, Rate, one_cycle
from cemlib.numerics.precision import autocast, resolve
from cemlib.numerics.replay import Replay
from cemlib.numerics.seeds import derive, generator
from cemlib.numerics.sums import Monitor
from cemlib.surrogates.base import Surrogate

Row = dict[str, Any]
LAST_PHASE_LR = 4.1e-4  # below this learning rate the surrogate has its full weight


@dataclass(frozen=True)
class Defended:
    """A split model behind its channel, with its training-time defences."""

    deployed: Deployed
    surrogate: Surrogate | None = None
    penalty: Penalty | None = None
    pruning: PruningConfig | None = None

    @property
    def modules(self) -> dict[str, nn.Module]:
        """Return the trained modules by name."""
        parts = {"model": self.deployed.model, "surrogate": self.surrogate, "penalty": self.penalty}
        return {name: part for name, part in parts.items() if part is not None}


@dataclass(frozen=True)
class Rates:
    """The learning rate of a step and the weight of the surrogate; tensors in a CUDA graph."""

    lr: Rate
    lambda_eff: Rate


class Step:
    """Trains on the next batch of an epoch, or on all batches.

    Attributes:
        optimiser: SGD over the model and the surrogate; a penalty has its own optimiser.
        noise: Random generator of the release channel.
        monitor: Means over the epoch, and the first value that was not finite.
    """

    def __init__(
        self, defended: Defended, batches: Batches, settings: TrainConfig, seed: int
    ) -> None:
        self.defended, self.batches, self.settings = defended, batches, settings
        self.seed, self.device = seed, batches.split.labels.device
        self.precision = resolve(settings.precision, self.device)
        trained = (defended.deployed.model, defended.surrogate)
        self.optimiser = SGD(
            [weights for module in trained if module for weights in module.parameters()],
            momentum=settings.momentum,
            weight_decay=settings.weight_decay,
            nesterov=settings.nesterov,
        )
        self.noise = torch.Generator(self.device)
        self.monitor = Monitor(self.device)
        # Without `self`, whose reference to itself would keep a graph's memory after the training.
        noise, own = self.noise, defended.surrogate
        self._replay = Replay(self.device, lambda: [noise, *(own.generators() if own else ())])

    def pass_over(self, number: int) -> Row:
        """Train an epoch and return its row; raise DivergedError if a value is not finite."""
        # The dropout of the head draws from torch's global state.
        torch.manual_seed(derive(self.seed, "dropout", number))
        self.noise.manual_seed(derive(self.seed, "noise", number))
        if (surrogate := self.defended.surrogate) is not None:
            surrogate.reseed(derive(self.seed, "surrogate", number))
        self.shuffle(number)
        self.monitor.begin()
        self.defended.deployed.model.train()
        for layer in self.defended.deployed.model.modules():
            own = [*layer.parameters(recurse=False)]
            if own and not any(each.requires_grad for each in layer.parameters()):
                layer.training = False  # the statistics of frozen layers are frozen, too
        for size, rates in zip(self.batches.sizes, self.rates(number), strict=True):
            self(size, rates)
        means = self.monitor.means(number)
        row: Row = {"epoch": number, "lr": rates.lr, "lambda_eff": rates.lambda_eff}
        row |= {name: means[name] for name in ("train_ce", "surrogate", "train_top1")}
        row["train_loss"] = means["train_ce"] + means["weighted surrogate"]
        if self.defended.penalty is not None:
            row["penalty"] = means["penalty"]
            row["train_loss"] += means["penalty"]
        if surrogate is not None:
            task, pull = means["gradient of the task"], means["gradient of the surrogate"]
            row["surrogate/gradient_ratio"] = pull / task if task > 0 else None
            row |= {f"surrogate/{name}": value for name, value in surrogate.drain().items()}
        return row

    def rates(self, number: int) -> list[Rates]:
        """Return the learning rate and lambda_eff of every step of a 1-based epoch."""
        steps, surrogate = len(self.batches.sizes), self.defended.surrogate
        lrs = [learning_rate(self.settings, number, step / steps) for step in range(steps)]
        if surrogate is None or number < surrogate.start_epoch:
            return [Rates(lr, 0.0) for lr in lrs]
        weight, scaled = surrogate.settings.lambda_, surrogate.settings.lr_scaling
        return [Rates(lr, strength(weight, lr, scaled)) for lr in lrs]

    def shuffle(self, number: int) -> None:
        """Start the augmented batches of an epoch, the same at every call."""
        order, draws = (generator(self.seed, name, number) for name in ("order", "augment"))
        self.batches.begin(order, draws)

    def __call__(self, size: int, rates: Rates) -> None:
        """Train on the next batch, of the given size."""
        acting = self.defended.surrogate if rates.lambda_eff > 0 else None
        shared = (self._replay.shared(name, rate) for name, rate in vars(rates).items())
        update = partial(self._update, size, Rates(*shared), acting)
        # A CUDA graph holds neither a smaller last batch nor a surrogate's irregular steps.
        if size != self.batches.sizes[0] or (acting and not acting.replayable):
            update()
        elif not self._replay(update, acting is not None) and acting:
            acting.replayed()

    def _update(self, size: int, rates: Rates, acting: Surrogate | None) -> None:
        model, channel = self.defended.deployed.model, self.defended.deployed.channel
        penalty = self.defended.penalty
        images, labels = self.batches.take(size)
        images.requires_grad_(penalty is not None and penalty.differentiates_images)
        with autocast(self.precision, self.device):
            z = model.encoder(images)
        z = z.float()
        clean, spread, adversary, norms = z, z.new_zeros(()), z.new_zeros(()), z.new_zeros(2)
        if acting is not None:
            clean, branch, norms = fork(z, rates.lambda_eff)
            # The spread of the shaped features is measured against the noise.
            spread = acting(channel.shape(branch), labels)
        released = channel(clean, self.noise)
        with autocast(self.precision, self.device):
            logits = model.head(released)
        ce = F.cross_entropy(logits.float(), labels, label_smoothing=self.settings.label_smoothing)
        if penalty is not None:
            adversary = penalty(images, labels, z, released)

        self.optimiser.zero_grad()
        (ce + spread + adversary).backward()
        self.optimiser.step(rates.lr)
        if penalty is not None:
            penalty.step()

        top1 = (logits.argmax(1) == labels).float().mean()
        values = {  # of several that are not finite, the error names the first
            "a feature": z.abs().amax(),
            "train_ce": ce,
            "surrogate": spread,
            "weighted surrogate": rates.lambda_eff * spread.detach().double(),
            "penalty": adversary,
            "train_top1": top1,
            "gradient of the task": norms[0],
            "gradient of the surrogate": norms[1],
        }
        self.monitor.add(values, size)


class _Fork(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor, factor: Rate, norms: Tensor) -> tuple[Tensor, Tensor]:
        ctx.factor, ctx.norms = factor, norms
        return z.view_as(z), z.flatten(1)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        task, penalty = gradients[0], ctx.factor * gradients[1].view_as(gradients[0])
        torch.stack([task.norm(), penalty.norm()], out=ctx.norms)
        return task + penalty, None, None


def fork(z: Tensor, factor: Rate) -> tuple[Tensor, Tensor, Tensor]:
    """Return z for the task, z (B, D) for the surrogate, and the norms of both gradients (2,).

    The gradient of the surrogate's features is multiplied by `factor`. One backward pass of the
    summed losses, which fills the norms, then gives the gradients of the published code, where the
    surrogate and the task have a backward pass each.
    """
    norms = torch.zeros(2, dtype=z.dtype, device=z.device)
    task, penalty = _Fork.apply(z, factor, norms)
    return task, penalty, norms


def learning_rate(settings: TrainConfig, epoch: int, done: float = 0.0) -> float:
    """Return the learning rate in a 1-based epoch of which the share `done` is over."""
    if settings.schedule == "one_cycle":
        share = (epoch - 1 + done) / settings.epochs
        return one_cycle(share, settings.lr, settings.warm_up)
    return settings.lr * settings.decay ** sum(epoch > passed for passed in settings.milestones)


def strength(weight: float, lr: float, scaled: bool = True) -> float:
    """Return lambda_eff = lambda * 0.001 / lr, or lambda if lr < 4.1e-4 or not `scaled`.

    >>> [round(strength(16, lr), 2) for lr in (0.05, 0.01, 0.002, 0.0004)]
    [0.32, 1.6, 8.0, 16]
    """
    return weight if lr < LAST_PHASE_LR or not scaled else weight * 0.001 / lr
