"""Train a network of the user's own behind a defence, in one call."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from functools import partial
from types import MappingProxyType
from typing import Any

import torch
from torch import nn

from cemlib.config import parse
from cemlib.data.tensors import Images, Labels, from_tensors
from cemlib.models.cutting import possible_cuts
from cemlib.models.split import Dimensions, SplitModel
from cemlib.training.fit import Trained, fit
from cemlib.training.own import OwnSurrogate

DEFENDED = "defended"
FINE_TUNING = MappingProxyType({"epochs": 20, "lr": 0.01, "schedule": "one_cycle"})


def defend(
    model: nn.Module,
    cut: str | None = None,
    *,
    images: Images,
    labels: Labels | None = None,
    test_images: Images | None = None,
    test_labels: Labels | None = None,
    defence: Mapping[str, Any],
    train: Mapping[str, Any] = FINE_TUNING,
    surrogate: OwnSurrogate | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    bottleneck: int | None = None,
    seed: int = 0,
    device: torch.device | str | None = None,
) -> Trained:
    """Train a copy of a network behind a defence, from the weights that it has.

    A trained network is fine-tuned, a fresh one trained from its start. Of the images three
    quarters are trained on, less a tenth of these for validation; the others are tested on, and are
    those that `cemlib.audit` attacks when it is given the same images.

    Args:
        model: Maps images (B, C, H, W) in [0, 1] to logits, or images normalised by `mean` and
            `std`; or a `cemlib.models.split.SplitModel`. It stays as it is.
        cut: Name of the last submodule on the client; None for a `SplitModel`.
        images: (N, C, H, W), uint8 or floats in [0, 1]; a tensor, a NumPy array, or a torch Dataset
            of (image, label) pairs.
        labels: integers (N,), from 0 on; None for a Dataset.
        test_images: A test set; all of `images` are then for training and validation.
        test_labels: with it.
        defence: A defence's section of a study, such as
            `{"noise_std": 0.2, "surrogate": {"name": "gated", "lambda": 8}}`.
        train: What is not the default of a study's section `train`, and of `FINE_TUNING`: 20
            epochs, a learning rate that rises to 0.01 and falls to 0.
        surrogate: One of the user's own, in the place of the defence's.
        mean: Mean of each colour channel, which the client takes off the images.
        std: Standard deviation of each colour channel, by which it divides.
        bottleneck: Channels of the published bottleneck at the cut; None for none.
        seed: Of everything random.
        device: Where it is computed; default: where the network's weights are.

    Returns:
        The classifier as deployed (`.deployed.model`, a `SplitModel`, and `.deployed.channel`), its
        `.scores` and `.history`. `cemlib.audit` takes it as it is.

    Raises:
        ConfigError: `defence` or `train` is wrong, or does not fit the network or the images.
        DataError: images and labels cannot be used.
        ValueError: the network cannot be split there.
        DivergedError: a loss is no longer a number.
    """
    data = from_tensors(images, labels, test_images, test_labels)
    study = parse(
        {
            "experiment": "defend",
            "threads": torch.get_num_threads(),
            "seeds": [seed],
            "data": {},
            "train": {**FINE_TUNING, **train},
            "defences": {DEFENDED: dict(defence)},
            "attacks": {"mean_image": {}},  # a study has one
        }
    )
    network = partial(
        split_copy,
        model,
        cut,
        data.image_shape,
        mean=mean,
        std=std,
        bottleneck=bottleneck,
        sparse_coding=study.defences[DEFENDED].sparse_coding,
    )
    return fit(study, DEFENDED, data.to(device or place(model)), network, surrogate=surrogate)


def place(model: nn.Module) -> torch.device:
    """Return where the weights of a network are."""
    return next((weights.device for weights in model.parameters()), torch.device("cpu"))


def split_copy(
    model: nn.Module,
    cut: str | None,
    image_shape: Dimensions,
    *,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    bottleneck: int | None = None,
    sparse_coding: bool = False,
) -> SplitModel:
    """Return a copy of a network in two (see `SplitModel.from_module`), or of a split one.

    Raises:
        ValueError: it cannot be split so, or is split and another split is asked for.
    """
    whole = deepcopy(model)
    if isinstance(whole, SplitModel):
        refuse({"cut": cut, "mean": mean, "std": std, "bottleneck": bottleneck})
        return whole.measured(image_shape)
    if cut is None:
        cuts = ", ".join(possible_cuts(whole))
        raise ValueError(f"cut: missing; name the last submodule on the client, one of {cuts}")
    return SplitModel.from_module(
        whole,
        cut,
        image_shape=image_shape,
        mean=mean,
        std=std,
        bottleneck=bottleneck,
        sparse_coding=sparse_coding,
    )


def refuse(options: Mapping[str, Any]) -> None:
    """Refuse options of a network that is not split yet.

    Raises:
        ValueError: one of them is given.
    """
    given = [name for name, value in options.items() if value is not None]
    if given:
        raise ValueError(f"{', '.join(given)}: the network given is split already; leave them out")
