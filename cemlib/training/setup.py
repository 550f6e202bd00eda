"""Build a trainer from a study: the network, its defence, and their initial weights."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

from cemlib.config import ConfigError, Study
from cemlib.data.prepared import Prepared
from cemlib.defences.channels import build as build_channel
from cemlib.defences.deployed import Deployed
from cemlib.defences.penalties import PENALTIES, Penalty
from cemlib.models.layers import SparseCoding
from cemlib.models.split import SplitModel
from cemlib.numerics.seeds import derive
from cemlib.surrogates import SURROGATES, Surrogate
from cemlib.training.own import OwnSurrogate
from cemlib.training.step import Defended
from cemlib.training.trainer import Trainer

Network = Callable[[], SplitModel]


def begin(
    study: Study,
    defence: str,
    seed: int,
    data: Prepared,
    network: Network,
    own: OwnSurrogate | None = None,
) -> Trainer:
    """Return a new trainer of one defence of a study, on the device of the data.

    `network` returns a new split network, with weights from torch's global random state, which is
    set from the seed; `own` replaces the defence's surrogate.

    Raises:
        ConfigError: if the network or its defence cannot be built as configured.
    """
    wanted, settings = study.defence(defence), study.training(defence)
    section, place = wanted.surrogate, f"defences.{defence}"
    surrogate: Surrogate | None = None
    penalty: Penalty | None = None
    with _part(seed, "model", "model"):
        model = network().measured(data.image_shape)
        if wanted.sparse_coding and SparseCoding not in map(type, model.encoder.modules()):
            raise ValueError("the defence asks for sparse_coding; build the network with it")
    options = wanted.channel.options()
    channel = build_channel(wanted.channel.name, noise_std=wanted.noise_std, **options)
    with _part(seed, "surrogate_init", f"{place}.surrogate"):
        sizes = {"dim": math.prod(model.feature_shape), "num_classes": len(data.classes)}
        if own is not None:  # the spread is measured against all noise that is released
            surrogate = own.surrogate(**sizes, noise_std=channel.std)
        elif section is not None:
            surrogate = SURROGATES[section.name](section, **sizes, noise_std=channel.std)
        if surrogate is not None and surrogate.start_epoch > settings.epochs:
            raise ValueError(
                f"acts from epoch {surrogate.start_epoch} on, train.epochs is {settings.epochs};"
                " train longer"
            )
    with _part(seed, "penalty_init", f"{place}.penalty"):
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
    return Trainer(settings, defended, data, seed)


@contextmanager
def _part(seed: int, stream: str, key: str) -> Iterator[None]:
    """Start a random stream, and name the section of the configuration in an error."""
    torch.manual_seed(derive(seed, stream))
    try:
        yield
    except ValueError as error:
        raise ConfigError(f"{key}: {error}") from error
