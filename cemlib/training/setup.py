"""A training at its start: the network, its defence and the trainer, as a study configures them."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from cemlib.config import ConfigError, Study
from cemlib.config.defences import AnyPenalty, DefenceConfig
from cemlib.config.surrogates import AnySurrogate
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
    """Which defence of a study is trained, and the seed of everything random in it."""

    study: Study
    defence: str
    seed: int

    @property
    def settings(self) -> DefenceConfig:
        """Return the defence's section of the configuration."""
        return self.study.defence(self.defence)

    def network(self, data: Prepared) -> dict[str, Any]:
        """Return the arguments that build the split model again, for the run's `config.json`."""
        return {
            "name": self.study.model.name,
            "num_classes": len(data.classes),
            "image_size": data.image_shape[1],
            "cut": self.study.model.cut,
            "dropout": self.study.model.dropout,
            "sparse_coding": self.settings.sparse_coding,
            "mean": data.mean,
            "std": data.std,
        }

    def trainer(self, data: Prepared, network: dict[str, Any]) -> Trainer:
        """Build everything at its start, from named random streams, where the data lie.

        Raises:
            ConfigError: if the network or its defence cannot be built as configured.
        """
        return self.begin(data, lambda: build(**network).to(memory_format=torch.channels_last))

    def begin(self, data: Prepared, network: Network, own: OwnSurrogate | None = None) -> Trainer:
        """Build the same with a network, and perhaps a surrogate, that no configuration names.

        Args:
            data: Where they lie everything is computed.
            network: Makes the split network anew; its weights come from torch's global random
                state, which the run's seed has set.
            own: Takes the place of the defence's surrogate.

        Raises:
            ConfigError: if the network or its defence cannot be built as configured.
        """
        wanted, section = self.settings, self.settings.surrogate
        settings = self.study.training(self.defence)
        with self._part("model", "model"):
            model = network().measured(data.image_shape)
            _check_sparse_coding(wanted, model)
        options = wanted.channel.options()
        channel = build_channel(wanted.channel.name, noise_std=wanted.noise_std, **options)
        with self._part("surrogate_init", f"defences.{self.defence}.surrogate"):
            sizes = {"dim": math.prod(model.feature_shape), "num_classes": len(data.classes)}
            # It measures spread against all the noise that is released.
            surrogate = _surrogate(own or section, **sizes, noise_std=channel.std)
            _check_acts(surrogate, settings.epochs)
        with self._part("penalty_init", f"defences.{self.defence}.penalty"):
            penalty = _penalty(wanted.penalty, model, data)
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
        """Give a part its own random stream; an error names the section that asked for it."""
        torch.manual_seed(derive(self.seed, stream))
        try:
            yield
        except ValueError as error:
            raise ConfigError(f"{key}: {error}") from error


def _check_sparse_coding(defence: DefenceConfig, model: SplitModel) -> None:
    """Check a network from outside the configuration, built without a look at the defence."""
    layers = map(type, model.encoder.modules())
    if defence.sparse_coding and SparseCoding not in layers:
        raise ValueError("the defence asks for sparse_coding; build the network with it")


def _surrogate(wanted: AnySurrogate | OwnSurrogate | None, **sizes: Any) -> Surrogate | None:
    if isinstance(wanted, OwnSurrogate):
        return wanted.surrogate(**sizes)
    return SURROGATES[wanted.name](wanted, **sizes) if wanted else None


def _penalty(wanted: AnyPenalty | None, model: SplitModel, data: Prepared) -> Penalty | None:
    if wanted is None:
        return None
    kind, features = PENALTIES[wanted.name], model.feature_shape
    return kind(wanted, image_shape=data.image_shape, feature_shape=features)


def _check_acts(surrogate: Surrogate | None, epochs: int) -> None:
    """Refuse a training that ends before its surrogate starts: its results would mislead."""
    if surrogate is not None and surrogate.start_epoch > epochs:
        raise ValueError(
            f"acts from epoch {surrogate.start_epoch} on, train.epochs is {epochs}; train longer"
        )
