"""A training at its start: the network, its defence and the trainer, as a study configures them."""

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
from cemlib.defences.channels.base import Channel
from cemlib.defences.deployed import Deployed
from cemlib.defences.penalties import build as build_penalty
from cemlib.defences.penalties.base import Penalty
from cemlib.models import build
from cemlib.models.layers import SparseCoding
from cemlib.models.split import SplitModel
from cemlib.seeds import derive
from cemlib.surrogates import Surrogate
from cemlib.surrogates import build as build_surrogate
from cemlib.training.defended import Defended
from cemlib.training.trainer import Trainer

Network = Callable[[], SplitModel]
# From the defence, its channel, the features' dimensions and the classes.
Choice = Callable[[DefenceConfig, Channel, int, int], Surrogate | None]


@dataclass(frozen=True)
class Setup:
    """Which defence of a study is trained, and the seed of everything random in it."""

    study: Study
    defence: str
    seed: int

    @property
    def settings(self) -> DefenceConfig:
        """The defence's section of the configuration."""
        return self.study.defence(self.defence)

    def network(self, data: Prepared) -> dict[str, Any]:
        """Arguments that build the split model again, for the run's `config.json`."""
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
        """Everything at its start, from named random streams, where the data lie.

        Raises:
            ConfigError: if the network or its defence cannot be built as configured.
        """
        return self.begin(data, lambda: build(**network).to(memory_format=torch.channels_last))

    def begin(
        self, data: Prepared, network: Network, own: tuple[Choice, float] | None = None
    ) -> Trainer:
        """The same with a network, and perhaps a surrogate, that no configuration names.

        Args:
            data: Where they lie everything is computed.
            network: Makes the split network anew; its weights come from torch's global random
                state, which the run's seed has set.
            own: What makes the surrogate in place of the defence's, and its lambda.

        Raises:
            ConfigError: if the network or its defence cannot be built as configured.
        """
        settings = self.study.training(self.defence)
        choose, weight = own or (_surrogate, _weight(self.settings))
        with self._part("model", "model"):
            model = network().measured(data.image_shape)
            _check_sparse_coding(self.settings, model)
        channel = _channel(self.settings)
        with self._part("surrogate_init", f"defences.{self.defence}.surrogate"):
            dim = math.prod(model.feature_shape)
            surrogate = choose(self.settings, channel, dim, len(data.classes))
            _check_acts(surrogate, settings.epochs)
        with self._part("penalty_init", f"defences.{self.defence}.penalty"):
            penalty = _penalty(self.settings, model, data)
        deployed, pruning = Deployed(model, channel), self.settings.pruning
        scaling = self.settings.surrogate is None or self.settings.surrogate.lr_scaling
        defended = Defended(deployed, surrogate, weight, scaling, penalty, pruning)
        for module in defended.modules.values():
            module.to(data.train.images.device)
        return Trainer(settings, defended, data, self.seed)

    @contextmanager
    def _part(self, stream: str, key: str) -> Iterator[None]:
        """A part with its own random stream; an error names the section that asked for it."""
        torch.manual_seed(derive(self.seed, stream))
        try:
            yield
        except ValueError as error:
            raise ConfigError(f"{key}: {error}") from error


def _check_sparse_coding(defence: DefenceConfig, model: SplitModel) -> None:
    """A network from outside the configuration is built without a look at the defence."""
    layers = map(type, model.encoder.modules())
    if defence.sparse_coding and SparseCoding not in layers:
        raise ValueError("the defence asks for sparse_coding; build the network with it")


def _channel(defence: DefenceConfig) -> Channel:
    options = defence.channel.options()
    return build_channel(defence.channel.name, noise_std=defence.noise_std, **options)


def _weight(defence: DefenceConfig) -> float:
    return defence.surrogate.lambda_ if defence.surrogate else 0.0


def _surrogate(
    defence: DefenceConfig, channel: Channel, dim: int, num_classes: int
) -> Surrogate | None:
    """A surrogate measures spread against all the noise that is released."""
    if defence.surrogate is None:
        return None
    name, options = defence.surrogate.name, defence.surrogate.options()
    noise_std = channel.std
    return build_surrogate(name, dim=dim, num_classes=num_classes, noise_std=noise_std, **options)


def _penalty(defence: DefenceConfig, model: SplitModel, data: Prepared) -> Penalty | None:
    if defence.penalty is None:
        return None
    shapes = {"image_shape": data.image_shape, "feature_shape": model.feature_shape}
    return build_penalty(defence.penalty.name, **shapes, **defence.penalty.options())


def _check_acts(surrogate: Surrogate | None, epochs: int) -> None:
    """Refuse a training that ends before its surrogate starts: its results would mislead."""
    if surrogate is not None and surrogate.start_epoch > epochs:
        raise ValueError(
            f"acts from epoch {surrogate.start_epoch} on, train.epochs is {epochs}; train longer"
        )
