"""Build a trainer from a study: the network, its defence, and their initial weights."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from cemlib.config import ConfigError, Study
from cemlib.config.defences import DefenceConfig
from cemlib.data.prepared import Prepared
from cemlib.defences.channels import build as build_channel
from cemlib.defences.deployed import Deployed
from cemlib.defences.penalties import PENALTIES, Penalty
from cemlib.models import build
from cemlib.models.layers import SparseCoding
from cemlib.models.split import SplitModel
from cemlib.numerics.seeds import derive
from cemlib.surrogates import SURROGATES, Surrogate
from cemlib.training.own import OwnSurrogate
from cemlib.training.step import Defended
from cemlib.training.trainer import Trainer

Network = Callable[[], SplitModel]


@dataclass(frozen=True)
class Setup:
    """One defence of a study, and the seed of its training."""

    study: Study
    defence: str
    seed: int

    @property
    def settings(self) -> DefenceConfig:
        """Return the defence's section of the configuration."""
        return self.study.defence(self.defence)

    def network(self, data: Prepared) -> dict[str, Any]:
        """Return the arguments of `cemlib.models.build`, for the run's `config.json`."""
        options = self.study.network(self.defence).plain()
        normalised = options.pop("normalise")
        return {
            **options,
            "num_classes": len(data.classes),
            "image_size": data.image_shape[1],
            "sparse_coding": self.settings.sparse_coding,
            "mean": data.mean if normalised else [0.0] * len(data.mean),
            "std": data.std if normalised else [1.0] * len(data.std),
        }

    def trainer(self, data: Prepared, network: dict[str, Any]) -> Trainer:
        """Return a new trainer of the network with these arguments; see `begin`."""
        return self.begin(data, lambda: build(**network).to(memory_format=torch.channels_last))

    def begin(self, data: Prepared, network: Network, own: OwnSurrogate | None = None) -> Trainer:
        """Return a new trainer, on the device of the data.

        `network` returns a new split network, with weights from torch's global random state, which
        is set from the seed; `own` replaces the defence's surrogate.

        Raises:
            ConfigError: if the network or its defence cannot be built as configured.
        """
        wanted, section = self.settings, self.settings.surrogate
        settings = self.study.training(self.defence)
        surrogate: Surrogate | None = None
        penalty: Penalty | None = None
        with self._part("model", "model"):
            model = network().measured(data.image_shape)
            if wanted.sparse_coding and SparseCoding not in map(type, model.encoder.modules()):
                raise ValueError("the defence asks for sparse_coding; build the network with it")
        options = wanted.channel.options()
        channel = build_channel(wanted.channel.name, noise_std=wanted.noise_std, **options)
        with self._part("surrogate_init", f"defences.{self.defence}.surrogate"):
            sizes = {"dim": math.prod(model.feature_shape), "num_classes": len(data.classes)}
            if own is not None:  # the spread is measured against all noise that is released
                surrogate = own.surrogate(**sizes, noise_std=channel.std)
            elif section is not None:
                surrogate = SURROGATES[section.name](section, **sizes, noise_std=channel.std)
            if surrogate is not None and surrogate.start_epoch > settings.epochs:
                raise ValueError(
                    f"acts from epoch {surrogate.start_epoch} on, train.epochs is"
                    f" {settings.epochs}; train longer"
                )
        with self._part("penalty_init", f"defences.{self.defence}.penalty"):
            if wanted.penalty is not None:
                shapes = {"image_shape": data.image_shape, "feature_shape": model.feature_shape}
                penalty = PENALTIES[wanted.penalty.name](wanted.penalty, **shapes)
        defended = Defended(
            Deployed(model, channel),
            surrogate,
            weight=own.weight if own else section.lambda_ if section else 0.0,
            lr_scaling=section is None or section.lr_scaling,
            penalty=penalty,
            pruning=wanted.pruning,
        )
        for module in defended.modules.values():
            module.to(data.train.images.device)
        return Trainer(settings, defended, data, self.seed)

    @contextmanager
    def _part(self, stream: str, key: str) -> Iterator[None]:
        """Start a random stream, and name the section of the configuration in an error."""
        torch.manual_seed(derive(self.seed, stream))
        try:
            yield
        except ValueError as error:
            raise ConfigError(f"{key}: {error}") from error
