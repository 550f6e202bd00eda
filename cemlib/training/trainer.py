"""One training run: epochs of SGD on the defended objective, which can resume after any epoch."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from cemlib.config.study import TrainConfig
from cemlib.data.augment import Augment
from cemlib.data.batches import Batches
from cemlib.data.prepared import Prepared
from cemlib.defences.pruning import prune
from cemlib.numerics.divergence import check_finite
from cemlib.numerics.precision import autocast
from cemlib.numerics.seeds import generator
from cemlib.records.checkpoint import (
    State,
    copied,
    pack,
    restore_training,
    training_state,
    unpack,
)
from cemlib.surrogates.base import Surrogate
from cemlib.training.metrics import METRICS
from cemlib.training.step import Defended, Row, Step

SCORES = ("top1", "test_loss", "val_top1", "leakage_nats", "leakage_images", "chance_top1")
SHOWN = ("train_loss", "val_top1")  # columns of the history that the progress bar shows
MOST = 2048  # largest number of images per class that the leakage estimate asks for


@dataclass
class Best:
    """The best epoch so far, with `select` other than `last`."""

    epoch: int = 0
    score: float = -1.0
    weights: dict[str, Tensor] = field(default_factory=dict)


class Trainer:
    """Trains the client's encoder and the server's head together.

    Args:
        settings: Schedule, augmentation and selection.
        defended: The split model and its defence.
        data: Prepared images; only `final_scores` and `select: best_test` use the test images.
        seed: Seed of the run, from which every random stream is derived.
    """

    def __init__(
        self, settings: TrainConfig, defended: Defended, data: Prepared, seed: int
    ) -> None:
        self.settings, self.defended, self.data, self.seed = settings, defended, data, seed
        self.deployed, self.surrogate = defended.deployed, defended.surrogate
        self.device = data.train.images.device
        self.client_widths: tuple[int, ...] | None = None
        self.batches = Batches(data.train, settings.batch_size, Augment(settings.augment))
        self.step = Step(defended, self.batches, settings, seed)
        self.history: list[Row] = []
        self.fits: list[dict[str, Tensor]] = []
        self.best = Best()

    def remaining(self) -> Iterator[Row]:
        """Train the remaining epochs, and yield the row of each."""
        for number in range(len(self.history) + 1, self.settings.epochs + 1):
            yield self.epoch(number)

    def epoch(self, number: int) -> Row:
        """Train one 1-based epoch and return its row of the history.

        Raises:
            DivergedError: if the loss of a batch, or of the validation images, is not finite.
        """
        start = time.perf_counter()
        row = self.pass_over(number)
        row |= self._validate(number)
        if self.surrogate is not None and self.surrogate.fits:
            self._fit(self.surrogate, number)
        row["seconds"] = time.perf_counter() - start
        self.history.append(row)
        self._select(row)
        return row

    def pass_over(self, number: int) -> Row:
        """Do the training steps of an epoch, without validation, fit and selection."""
        self.prune_before(number)
        if self.surrogate is not None and self.step.rates(number)[0].lambda_eff > 0:
            self._learn_metric(self.surrogate, number)
        return self.step.pass_over(number)

    def prune_before(self, number: int) -> None:
        """Prune the client if that is due; the optimiser of its smaller weights starts anew."""
        pruning = self.defended.pruning
        if pruning is not None and self.client_widths is None and number > pruning.epoch:
            self.client_widths = prune(self.deployed.model, pruning.ratio)
            self.step = Step(self.defended, self.batches, self.settings, self.seed)

    def state(self) -> State:
        """Return a copy of everything that a checkpoint holds beside the history."""
        tensors = training_state(self.defended.modules, self.step.optimiser)
        penalty = self.defended.penalty
        if penalty is not None and penalty.optimiser is not None:
            tensors |= pack("penalty_optimiser", penalty.optimiser.state_dict())
        tensors = copied(tensors) | pack("best", self.best.weights)
        for epoch, fit in enumerate(self.fits):
            tensors |= pack(f"fits/{epoch}", fit)
        return tensors, {"best": {"epoch": self.best.epoch, "score": self.best.score}}

    def restore(self, tensors: dict[str, Tensor], state: dict[str, Any]) -> None:
        """Continue from the `state` of a checkpoint."""
        self.prune_before(len(self.history))
        fits = unpack("fits", tensors)
        epochs = len({name.partition("/")[0] for name in fits})
        self.fits = [unpack(str(epoch), fits) for epoch in range(epochs)]
        tensors = {name: tensor.to(self.device) for name, tensor in tensors.items()}
        restore_training(tensors, self.defended.modules, self.step.optimiser)
        penalty = self.defended.penalty
        if penalty is not None and penalty.optimiser is not None:
            penalty.optimiser.load_state_dict(unpack("penalty_optimiser", tensors))
        self.best = Best(**state["best"], weights=unpack("best", tensors))

    def _deployable(self, number: int) -> bool:
        """Return whether the whole defence is in place: the surrogate acts, pruning is done."""
        pruning = self.defended.pruning
        acts = self.surrogate is None or number >= self.surrogate.start_epoch
        return acts and (pruning is None or number > pruning.epoch)

    def _learn_metric(self, surrogate: Surrogate, number: int) -> None:
        """Compute the metric of a surrogate at training images, which are drawn for every epoch.

        Raises:
            DivergedError: if the metric is not finite.
        """
        if surrogate.metric is None:
            return
        images = self.data.train.images
        order = torch.randperm(len(images), generator=generator(self.seed, "task_images", number))
        chosen = images[order[: surrogate.metric_samples].to(self.device)]
        noise = generator(self.seed, "task_noise", number, self.device)
        metric = METRICS[surrogate.metric](self.deployed, chosen, noise)
        check_finite(number, **{f"{surrogate.metric}_metric": float(metric.trace())})
        surrogate.learn(metric)

    def _fit(self, surrogate: Surrogate, number: int) -> None:
        """Fit the surrogate to the shaped features of augmented images."""
        features, labels = self.step.seen or self._second_pass(number)
        surrogate.fit(features, labels)
        if statistics := surrogate.statistics():
            self.fits.append({name: t.cpu().clone() for name, t in statistics.items()})

    def _second_pass(self, number: int) -> tuple[Tensor, Tensor]:
        """Return shaped features and labels of the epoch's batches, encoded in eval mode."""
        encoder, shape = self.deployed.model.encoder.eval(), self.deployed.channel.shape
        features, labels = [], []
        self.step.shuffle(number)
        with torch.no_grad(), autocast(self.step.precision, self.device):
            for size in self.batches.sizes:
                _, images, batch_labels = self.batches.take(size)
                images = images.contiguous(memory_format=torch.channels_last)
                features.append(shape(encoder(images).flatten(1).float()))
                labels.append(batch_labels)
        return torch.cat(features), torch.cat(labels)

    def _validate(self, number: int) -> Row:
        """Return scores of the validation images, and the leakage estimated from them."""
        val, deployed = self.data.val, self.deployed
        features = deployed.features(val.images)
        noise = generator(self.seed, "val_noise", number, self.device)
        scores = deployed.score_features(features, val.labels, noise)
        # The last update of the epoch may have spoilt the weights after its loss was computed.
        check_finite(number, val_loss=scores["loss"])
        row: Row = {f"val_{name}": value for name, value in scores.items()}
        return row | {"val_leakage_nats": deployed.leakage(features, val.labels)}

    def _select(self, row: Row) -> None:
        """Keep the weights of the best epoch with the whole defence, unless `select` is `last`."""
        if self.settings.select == "last" or not self._deployable(row["epoch"]):
            return
        score = row["val_top1"]
        if self.settings.select == "best_test":
            noise = generator(self.seed, "test_noise", row["epoch"], self.device)
            test = self.data.test
            score = row["test_top1"] = self.deployed.score(test.images, test.labels, noise)["top1"]
        if score > self.best.score:
            weights = {k: v.clone() for k, v in self.deployed.model.state_dict().items()}
            self.best = Best(row["epoch"], score, weights)

    def deploy(self) -> int:
        """Load the weights of the selected epoch, and return its number."""
        if self.best.weights:
            self.deployed.model.load_state_dict(self.best.weights)
            return self.best.epoch
        return len(self.history)

    def final_scores(self) -> dict[str, float]:
        """Return the scores of the deployed epoch, by the names of `SCORES`.

        Accuracies are fractions: on test and validation images, and `chance_top1` for always
        answering the most frequent class. `test_loss` is the cross-entropy. `leakage_nats`, which
        is infinite without noise, is estimated from `leakage_images` images: the test images, and
        as many training images as are missing to min(D, `MOST`) per class on average, because the
        estimate needs more images than dimensions (see `cemlib.numerics.leakage`).
        """
        test, val, deployed = self.data.test, self.data.val, self.deployed
        test_noise = generator(self.seed, "test_noise", device=self.device)
        val_noise = generator(self.seed, "val_noise", device=self.device)
        features, labels = deployed.features(test.images), test.labels
        on_test = deployed.score_features(features, labels, test_noise)
        on_val = deployed.score(val.images, val.labels, val_noise)
        missing = len(self.data.classes) * min(features[0].numel(), MOST) - len(features)
        if missing > 0:
            more = deployed.features(self.data.train.images[:missing])
            features = torch.cat([features, more])
            labels = torch.cat([labels, self.data.train.labels[:missing]])
        leakage = deployed.leakage(features, labels)
        chance = test.labels.bincount().max().item() / len(test.labels)
        values = (on_test["top1"], on_test["loss"], on_val["top1"], leakage, len(labels), chance)
        return dict(zip(SCORES, values, strict=True))
