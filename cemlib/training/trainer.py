"""One training run: epochs of SGD on the defended objective, which can resume after any epoch."""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from cemlib.config import ConfigError, Study
from cemlib.config.defences import DefenceConfig
from cemlib.config.study import TrainConfig
from cemlib.data.augment import Augment
from cemlib.data.batches import Batches
from cemlib.data.prepared import Prepared
from cemlib.defences.channels import CHANNELS
from cemlib.defences.deployed import Deployed
from cemlib.defences.penalties import PENALTIES, Penalty
from cemlib.defences.pruning import client_stack, prune
from cemlib.models.layers import SparseCoding
from cemlib.models.split import SplitModel
from cemlib.numerics.divergence import check_finite
from cemlib.numerics.precision import autocast
from cemlib.numerics.seeds import derive, generator
from cemlib.records.checkpoint import Part, State, pack, restore_training, training_state, unpack
from cemlib.surrogates import SURROGATES, Surrogate
from cemlib.surrogates.base import Sizes
from cemlib.training.metrics import learn_metric
from cemlib.training.selection import Selection
from cemlib.training.step import Defended, Row, Step

SHOWN = ("train_loss", "val_top1")  # columns of the history that the lines of progress show
LARGE_PART = 1024  # images that a GPU encodes at once for a fit
Network = Callable[[], SplitModel]


class Trainer:
    """Trains the client's encoder and the server's head together.

    Attributes:
        history: One row for every finished epoch.
        selection: The epoch to deploy.
        client_widths: Channels of the client's convolutions, once they are pruned.
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
        self.selection = Selection(settings, defended, data, seed)

    def epoch(self, number: int) -> Row:
        """Train a 1-based epoch and return its row; raise DivergedError if a loss is not finite."""
        start = time.perf_counter()
        row = self.pass_over(number)
        row |= self._validate(number)
        if self.surrogate is not None and self.surrogate.fit_is_due(number):
            self._fit(self.surrogate, number)
        row["seconds"] = time.perf_counter() - start
        self.history.append(row)
        self.selection.consider(row)
        return row

    def pass_over(self, number: int) -> Row:
        """Prune and learn the metric if that is due, and do the training steps of an epoch."""
        if self.prune_before(number) and self.surrogate is not None:
            self.surrogate.reseed(derive(self.seed, "surrogate", number))
            self.surrogate.forget()
            if self.surrogate.refit:
                self._fit(self.surrogate, number)
        if self.surrogate is not None and self.step.rates(number)[0].lambda_eff > 0:
            learn_metric(self.surrogate, self.deployed, self.data.train.images, self.seed, number)
        return self.step.pass_over(number)

    def prune_before(self, number: int) -> bool:
        """Prune the client and begin a new optimiser, if that is due; return whether it was."""
        pruning = self.defended.pruning
        if pruning is None or self.client_widths is not None or number <= pruning.epoch:
            return False
        self.client_widths = prune(self.deployed.model, pruning.ratio)
        self.step = Step(self.defended, self.batches, self.settings, self.seed)
        return True

    def _validate(self, number: int) -> Row:
        """Return the scores of the validation images, and the leakage estimated from them."""
        val, deployed = self.data.val, self.deployed
        features = deployed.features(val.images)
        noise = generator(self.seed, "val_noise", number, self.device)
        scores = deployed.score_features(features, val.labels, noise)
        # The last update of the epoch may have spoilt the weights after its loss was computed.
        check_finite(number, val_loss=scores["loss"])
        row: Row = {f"val_{name}": value for name, value in scores.items()}
        return row | {"val_leakage_nats": deployed.channel.leakage(features.flatten(1), val.labels)}

    def _fit(self, surrogate: Surrogate, number: int) -> None:
        """Fit the surrogate to the shaped features of the epoch's batches, encoded in eval mode."""
        encoder, shape = self.deployed.model.encoder.eval(), self.deployed.channel.shape
        features, labels = [], []
        self.step.shuffle(number)
        with torch.no_grad(), autocast(self.step.precision, self.device):
            for size in self._fit_sizes():
                images, of_batch = self.batches.take(size)
                features.append(shape(encoder(images).flatten(1).float()))
                labels.append(of_batch)
        surrogate.fit(torch.cat(features), torch.cat(labels))

    def _fit_sizes(self) -> list[int]:
        """Return the sizes of the parts in which a fit encodes the images: large ones on a GPU."""
        if self.device.type == "cpu":
            return list(self.batches.sizes)
        count = sum(self.batches.sizes)
        return [min(LARGE_PART, count - start) for start in range(0, count, LARGE_PART)]

    def state(self) -> State:
        """Return a copy of all that a checkpoint holds besides the history."""
        best = self.selection
        tensors = training_state(self._parts) | pack("best", best.weights)
        return tensors, {"best": {"epoch": best.epoch, "score": best.score}}

    def restore(self, tensors: dict[str, Tensor], state: dict[str, Any]) -> None:
        """Continue from the `state` of a checkpoint."""
        self.prune_before(len(self.history))
        restore_training(tensors, self._parts)
        best = {**state["best"], "weights": unpack("best", tensors)}
        self.selection = replace(self.selection, **best)

    @property
    def _parts(self) -> dict[str, Part]:
        """Return what is trained, and the optimisers, by their names in a checkpoint."""
        penalty = self.defended.penalty
        parts: dict[str, Part] = {**self.defended.modules, "optimiser": self.step.optimiser}
        if penalty is not None and penalty.optimiser is not None:
            parts["penalty_optimiser"] = penalty.optimiser
        return parts


def begin(study: Study, defence: str, seed: int, data: Prepared, network: Network) -> Trainer:
    """Return the trainer of one defence of a study at its start, on the device of the data.

    `network` is called once, with torch's global random state set from the seed.

    Raises:
        ConfigError: if the network or its defence cannot be built, or has no weight to train.
    """
    wanted, settings = study.defence(defence), study.training(defence)
    section, place = wanted.surrogate, f"defences.{defence}"
    surrogate: Surrogate | None = None
    penalty: Penalty | None = None
    with _part(seed, "model", f"{place}.model" if wanted.model else "model"):
        model = network().measured(data.image_shape)
        if wanted.pruning is not None:
            client_stack(model.encoder)
        _check_trained(model, wanted)
        if wanted.sparse_coding and SparseCoding not in map(type, model.encoder.modules()):
            raise ValueError("the defence asks for sparse_coding; build the network with it")
    channel = CHANNELS[wanted.channel.name](wanted.noise_std, wanted.channel)
    with _part(seed, "surrogate_init", f"{place}.surrogate"):
        sizes: Sizes = {
            "dim": math.prod(model.feature_shape),
            "num_classes": len(data.classes),
            "noise_std": channel.std,  # the spread is measured against all noise that is released
        }
        if section is not None:
            surrogate = SURROGATES[section.name](section, **sizes)
            if surrogate.start_epoch > settings.epochs:
                raise ValueError(
                    f"acts from epoch {surrogate.start_epoch} on, train.epochs is"
                    f" {settings.epochs}; train longer"
                )
    with _part(seed, "penalty_init", f"{place}.penalty"):
        if wanted.penalty is not None:
            shapes = {"image_shape": data.image_shape, "feature_shape": model.feature_shape}
            penalty = PENALTIES[wanted.penalty.name](wanted.penalty, **shapes)
    defended = Defended(Deployed(model, channel), surrogate, penalty, wanted.pruning)
    for module in defended.modules.values():
        module.to(data.train.images.device)
    return Trainer(settings, defended, data, seed)


def _check_trained(model: SplitModel, defence: DefenceConfig) -> None:
    """Raise ValueError if the training, or the loss that a defence adds, can change no weight."""
    adds = defence.surrogate is not None or defence.penalty is not None
    part, kind = (model.encoder, "client") if adds else (model, "network")
    if not any(weights.requires_grad for weights in part.parameters()):
        raise ValueError(
            f"the {kind} has no weight to train; call requires_grad_() on frozen weights"
        )


@contextmanager
def _part(seed: int, stream: str, key: str) -> Iterator[None]:
    """Start a random stream, and name the section of the configuration in an error."""
    torch.manual_seed(derive(seed, stream))
    try:
        yield
    except ValueError as error:
        raise ConfigError(f"{key}: {error}") from error
