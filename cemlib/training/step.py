"""One update of a defended classifier, on one batch: the only thing that is done often.

Nothing in it waits for the device, loops over samples or classes, or moves what it keeps to another
place, so that on a GPU it is replayed as one graph.
"""

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional as F

from cemlib.config.study import TrainConfig
from cemlib.data.batches import Batches
from cemlib.optim import SGD, Rate
from cemlib.precision import autocast, resolve
from cemlib.replay import Replay
from cemlib.surrogates.base import Surrogate
from cemlib.training.defended import Defended
from cemlib.training.monitor import Monitor
from cemlib.training.objective import fork

WATCHED = (
    "a feature",
    "train_ce",
    "surrogate",
    "weighted surrogate",
    "penalty",
    "train_top1",
    "gradient of the task",
    "gradient of the surrogate",
)


@dataclass(frozen=True)
class Pace:
    """Learning rate of a step, and the weight of the surrogate; tensors where it is replayed."""

    lr: Rate
    lambda_eff: Rate


class Step:
    """Trains on the next batch of an epoch.

    Args:
        defended: What is trained.
        batches: Where the batches come from; on their device everything is computed.
        settings: Arithmetic, momentum and weight decay.

    Attributes:
        optimiser: SGD over the model and the surrogate; a penalty trains what it has by itself.
        noise: The generator of the release noise, on the device.
        monitor: Means of `WATCHED` over the epoch.
        seen: Clean features (N, D) of the epoch as the channel shapes them, and their labels (N,),
            where `fit_features` asks for those of the training pass.
    """

    def __init__(self, defended: Defended, batches: Batches, settings: TrainConfig) -> None:
        self.defended, self.batches = defended, batches
        self.device = batches.split.labels.device
        self.precision = resolve(settings.precision, self.device)
        trained = (defended.deployed.model, defended.surrogate)
        self.optimiser = SGD(
            [weights for module in trained if module for weights in module.parameters()],
            momentum=settings.momentum,
            weight_decay=settings.weight_decay,
            nesterov=settings.nesterov,
        )
        self.noise = torch.Generator(self.device)
        self.monitor = Monitor(WATCHED, self.device)
        self.seen = self._room() if settings.fit_features == "training_pass" else None
        self._replay = Replay(self.device, self._generators)

    def __call__(self, size: int, pace: Pace) -> None:
        """Train on a batch of that size."""
        acting = self.defended.surrogate if pace.lambda_eff > 0 else None
        rates = (self._replay.shared(name, rate) for name, rate in vars(pace).items())
        update = partial(self._update, size, Pace(*rates), acting)
        # A last, smaller batch has other shapes, and some surrogates do in a step what others lack.
        if size != self.batches.sizes[0] or (acting and not acting.replayable):
            update()
        elif not self._replay(update, acting is not None) and acting:
            acting.replayed()

    def _update(self, size: int, pace: Pace, acting: Surrogate | None) -> None:
        """Forwards, backwards, and the weights."""
        places, images, labels = self.batches.take(size)
        images = images.contiguous(memory_format=torch.channels_last)
        deployed = self.defended.deployed
        with autocast(self.precision, self.device):
            features = deployed.model.encoder(images)
        features = features.float()
        self._keep(places, features, labels)
        clean, spread, norms = self._surrogate(features, labels, acting, pace.lambda_eff)
        released = deployed.channel(clean, self.noise)
        with autocast(self.precision, self.device):
            logits = deployed.model.head(released)
        ce = F.cross_entropy(logits.float(), labels)
        penalty = self._penalty(images, features, released)
        self.optimiser.zero_grad()
        (ce + spread + penalty).backward()  # type: ignore[no-untyped-call]
        self.optimiser.step(pace.lr)
        if self.defended.penalty is not None:
            self.defended.penalty.step()
        top1 = (logits.argmax(1) == labels).float().mean()
        weighted = pace.lambda_eff * spread.detach().double()
        values = (features.abs().amax(), ce, spread, weighted, penalty, top1, *norms.unbind())
        self.monitor.add(dict(zip(WATCHED, values, strict=True)), size)

    def _surrogate(
        self, features: Tensor, labels: Tensor, acting: Surrogate | None, weight: Rate
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The task's branch of the features, the penalty, and the norms of both gradients."""
        if acting is None:
            return features, features.new_zeros(()), features.new_zeros(2)
        clean, branch, norms = fork(features, weight)
        spread = acting(self.defended.deployed.channel.shape(branch), labels)
        return clean, spread, norms

    def _penalty(self, images: Tensor, features: Tensor, released: Tensor) -> Tensor:
        if self.defended.penalty is None:
            return features.new_zeros(())
        loss: Tensor = self.defended.penalty(images, features, released)
        return loss

    def _room(self) -> tuple[Tensor, Tensor] | None:
        """Places for the features of an epoch and their labels, if there is what is fitted."""
        surrogate = self.defended.surrogate
        if surrogate is None or not surrogate.fits:
            return None
        count = sum(self.batches.sizes)
        features = torch.zeros(count, surrogate.dim, device=self.device)
        return features, torch.zeros(count, dtype=torch.long, device=self.device)

    def _keep(self, places: Tensor, features: Tensor, labels: Tensor) -> None:
        if self.seen is not None:
            shaped = self.defended.deployed.channel.shape(features.detach().flatten(1))
            self.seen[0].index_copy_(0, places, shaped)
            self.seen[1].index_copy_(0, places, labels)

    def _generators(self) -> list[torch.Generator]:
        surrogate = self.defended.surrogate
        return [self.noise, *(surrogate.generators() if surrogate else [])]
