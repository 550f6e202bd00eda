"""One training run: epochs of SGD on the defended objective, resumable after any of them."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cemlib.config.defences import PruningConfig
from cemlib.config.study import TrainConfig
from cemlib.data.augment import Augment
from cemlib.data.batches import batches
from cemlib.data.prepared import Prepared
from cemlib.defences.deployed import Deployed
from cemlib.defences.penalties.base import Penalty
from cemlib.defences.pruning import prune
from cemlib.errors import check_finite
from cemlib.optim import SGD
from cemlib.seeds import derive, generator
from cemlib.surrogates.base import Surrogate
from cemlib.training.monitor import Monitor
from cemlib.training.objective import fork
from cemlib.training.schedule import learning_rate, strength

Row = dict[str, Any]
WATCHED = (
    "a feature",
    "train_ce",
    "surrogate",
    "penalty",
    "train_top1",
    "gradient of the task",
    "gradient of the surrogate",
)


@dataclass(frozen=True)
class Defended:
    """What is trained: a split model behind its channel, and all that defends it in training.

    Attributes:
        deployed: The split model and its release channel.
        surrogate: The conditional-entropy penalty, or None: on what the channel makes of clean
            features without chance, for noise and dropout the features themselves.
        weight: lambda of the surrogate.
        penalty: Another training penalty, or None.
        pruning: When and how much of the client is pruned, or None.
    """

    deployed: Deployed
    surrogate: Surrogate | None = None
    weight: float = 0.0
    penalty: Penalty | None = None
    pruning: PruningConfig | None = None

    @property
    def modules(self) -> dict[str, nn.Module]:
        """Everything with weights, by name."""
        optional = {"surrogate": self.surrogate, "penalty": self.penalty}
        present = {name: module for name, module in optional.items() if module is not None}
        return {"model": self.deployed.model, **present}


@dataclass(frozen=True)
class Pace:
    """What an epoch's steps have in common."""

    lr: float
    lambda_eff: float


@dataclass
class Best:
    """The epoch that is deployed, where one is selected."""

    epoch: int = 0
    score: float = -1.0
    weights: dict[str, Tensor] = field(default_factory=dict)


class Trainer:
    """Trains the client's encoder and the server's head together.

    Args:
        settings: Schedule, augmentation and selection.
        defended: The split model and its defence.
        data: Prepared images; `val` selects, `test` is touched only by `select: best_test`.
        seed: Seed of the run, from which every random stream is derived.
    """

    def __init__(
        self, settings: TrainConfig, defended: Defended, data: Prepared, seed: int
    ) -> None:
        self.settings, self.defended, self.data, self.seed = settings, defended, data, seed
        self.deployed, self.surrogate = defended.deployed, defended.surrogate
        self.device = data.train.images.device
        self.client_widths: tuple[int, ...] | None = None
        self.optimiser = self._optimiser()
        self.augment = Augment(settings.augment)
        self.history: list[Row] = []
        self.fits: list[dict[str, Tensor]] = []
        self.best = Best()

    def epoch(self, number: int) -> Row:
        """Train one 1-based epoch and return its line of the history.

        Raises:
            DivergedError: if the loss of some batch, or on the validation images, is not finite.
        """
        start = time.perf_counter()
        self.prune_before(number)
        pace = self._pace(number)
        row = {"epoch": number, "lr": pace.lr, "lambda_eff": pace.lambda_eff}
        row |= self._pass(number, pace)
        row |= self._validate(number)
        if self.surrogate is not None and self.surrogate.fits:
            self._fit(self.surrogate, number)
        row["seconds"] = time.perf_counter() - start
        self.history.append(row)
        self._select(row)
        return row

    def prune_before(self, number: int) -> None:
        """Prune the client if that is due before an epoch, or was before an earlier one.

        Its weights have other shapes then: the optimiser starts anew.
        """
        pruning = self.defended.pruning
        if pruning is not None and self.client_widths is None and number > pruning.epoch:
            self.client_widths = prune(self.deployed.model, pruning.ratio)
            self.optimiser = self._optimiser()

    def _optimiser(self) -> SGD:
        """SGD over the model and the surrogate; a penalty trains what it has by itself."""
        modules = [self.deployed.model, *([self.surrogate] if self.surrogate else [])]
        return SGD(
            [weights for module in modules for weights in module.parameters()],
            momentum=self.settings.momentum,
            weight_decay=self.settings.weight_decay,
        )

    def _pace(self, number: int) -> Pace:
        settings = self.settings
        lr = learning_rate(number, settings.lr, settings.milestones, settings.decay)
        active = self.surrogate is not None and number >= self.surrogate.start_epoch
        return Pace(lr, strength(self.defended.weight, lr) if active else 0.0)

    def _deployable(self, number: int) -> bool:
        """Whether an epoch's model has its whole defence: the surrogate acts, pruning is done."""
        pruning = self.defended.pruning
        acts = self.surrogate is None or number >= self.surrogate.start_epoch
        return acts and (pruning is None or number > pruning.epoch)

    def _pass(self, number: int, pace: Pace) -> Row:
        """One pass over the training images; its statistics are read at its end."""
        self._reseed(number)
        noise = generator(self.seed, "noise", number)
        monitor = Monitor(WATCHED, self.device)
        for images, labels in self._batches(number):
            monitor.add(self._step(images, labels, noise, pace), len(labels))
        means = monitor.means(number)
        row: Row = {name: means[name] for name in ("train_ce", "surrogate", "train_top1")}
        row["train_loss"] = means["train_ce"] + pace.lambda_eff * means["surrogate"]
        if self.defended.penalty is not None:
            row["penalty"] = means["penalty"]
            row["train_loss"] += means["penalty"]
        if self.surrogate is not None:
            task, penalty = means["gradient of the task"], means["gradient of the surrogate"]
            row["surrogate/gradient_ratio"] = penalty / task if task > 0 else None
            row |= {f"surrogate/{name}": value for name, value in self.surrogate.drain().items()}
        return row

    def _reseed(self, number: int) -> None:
        """Dropout draws from torch's global state, a surrogate from its own generator."""
        torch.manual_seed(derive(self.seed, "dropout", number))
        if self.surrogate is not None:
            self.surrogate.reseed(derive(self.seed, "surrogate", number))

    def _batches(self, number: int) -> Iterator[tuple[Tensor, Tensor]]:
        """The epoch's augmented batches; asked again, the same ones."""
        draws = generator(self.seed, "augment", number)
        shuffle = generator(self.seed, "order", number)
        size, train = self.settings.batch_size, self.data.train
        for images, labels in batches(train, size, order=shuffle):
            augmented = self.augment(images, draws)
            yield augmented.contiguous(memory_format=torch.channels_last), labels

    def _step(
        self, images: Tensor, labels: Tensor, noise: torch.Generator, pace: Pace
    ) -> tuple[Tensor, ...]:
        """One update; returns the statistics of `WATCHED`, on the device."""
        self.deployed.model.train()
        with self._precision():
            features = self.deployed.model.encoder(images)
        features = features.float()
        spread, norms = features.new_zeros(()), features.new_zeros(2)
        clean = features
        if self.surrogate is not None and pace.lambda_eff > 0:
            clean, branch, norms = fork(features, pace.lambda_eff)
            spread = self.surrogate(self.deployed.channel.shape(branch), labels)
        released = self.deployed.channel(clean, noise)
        with self._precision():
            logits = self.deployed.model.head(released)
        ce = F.cross_entropy(logits.float(), labels)
        penalty = self._penalty(images, features, released)
        self.optimiser.zero_grad()
        (ce + spread + penalty).backward()
        self._update(pace)
        top1 = (logits.argmax(1) == labels).float().mean()
        return features.abs().amax(), ce, spread, penalty, top1, norms[0], norms[1]

    def _penalty(self, images: Tensor, features: Tensor, released: Tensor) -> Tensor:
        if self.defended.penalty is None:
            return features.new_zeros(())
        loss: Tensor = self.defended.penalty(images, features, released)
        return loss

    def _update(self, pace: Pace) -> None:
        self.optimiser.step(pace.lr)
        if self.defended.penalty is not None:
            self.defended.penalty.step()

    def _precision(self) -> torch.autocast:
        low = self.settings.precision == "bfloat16"
        return torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=low)

    def _fit(self, surrogate: Surrogate, number: int) -> None:
        """Epoch-end statistics of what is released but for chance, of augmented images."""
        encoder = self.deployed.model.encoder.eval()
        features, labels = [], []
        with torch.no_grad(), self._precision():
            for images, batch_labels in self._batches(number):
                features.append(self.deployed.channel.shape(encoder(images).flatten(1).float()))
                labels.append(batch_labels)
        surrogate.fit(torch.cat(features), torch.cat(labels))
        if statistics := surrogate.statistics():
            self.fits.append({name: t.cpu().clone() for name, t in statistics.items()})

    def _validate(self, number: int) -> Row:
        """Scores on held-out images, and the bound on what their features tell."""
        val, deployed = self.data.val, self.deployed
        features = deployed.features(val.images)
        noise = generator(self.seed, "val_noise", number)
        scores = deployed.score_features(features, val.labels, noise)
        # The epoch's last step may have spoilt the weights after its loss was taken.
        check_finite(number, val_loss=scores["loss"])
        row: Row = {f"val_{name}": value for name, value in scores.items()}
        return row | {"val_leakage_nats": deployed.leakage(features, val.labels)}

    def _select(self, row: Row) -> None:
        """Keep the weights of the best epoch, where the settings ask for one.

        An epoch before the whole defence acts is none: its weights are not defended.
        """
        if self.settings.select == "last" or not self._deployable(row["epoch"]):
            return
        score = row["val_top1"]
        if self.settings.select == "best_test":
            test, noise = self.data.test, generator(self.seed, "test_noise", row["epoch"])
            score = row["test_top1"] = self.deployed.score(test.images, test.labels, noise)["top1"]
        if score > self.best.score:
            weights = {k: v.clone() for k, v in self.deployed.model.state_dict().items()}
            self.best = Best(row["epoch"], score, weights)

    def deploy(self) -> int:
        """Put the selected epoch's weights into the model and return that epoch."""
        if self.best.weights:
            self.deployed.model.load_state_dict(self.best.weights)
            return self.best.epoch
        return len(self.history)
