"""Train a network of the user's own behind a defence, in one call."""

from collections.abc import Mapping
from copy import deepcopy
from functools import partial
from types import MappingProxyType
from typing import Any

import torch
from torch import nn

from cemlib.config import Study, parse
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
    seed: int = 0,
    device: torch.device | str | None = None,
) -> Trained:
    """Train a copy of a network behind a defence, from the weights that it has.

    A trained network is fine-tuned, a fresh one trained from its start. A quarter of the images is
    tested on; it is the one that `cemlib.audit` attacks when it is given the same images. Of the
    others a tenth is for validation. torch's global random state is changed.

    Args:
        model: Maps images (B, C, H, W) in [0, 1] to logits; a `cemlib.models.split.SplitModel`
            where it wants them normalised, or gets a bottleneck. It stays as it is.
        cut: Name of the last submodule on the client; None for a `SplitModel`.
        images: Tensor, array or Dataset, as `cemlib.data.tensors.from_tensors` takes them.
        labels: integers (N,), from 0 on; None for a Dataset.
        test_images: A test set; all of `images` are then for training and validation.
        test_labels: with it.
        defence: A defence's section of a study, such as `{"noise_std": 0.2, "surrogate": "gated"}`.
        train: What is neither the default of a study's section `train` nor that of `FINE_TUNING`:
            20 epochs, a learning rate that rises to 0.01 and falls to 0.
        surrogate: One of the user's own, in the place of the defence's.
        seed: Of everything random but the split.
        device: Where it is computed; default: where the network's weights are.

    Returns:
        The network as deployed (`.deployed.model`, a `SplitModel`, and `.deployed.channel`), its
        `.scores` and `.history`. `cemlib.audit` takes it as it is.

    Raises:
        ConfigError: `defence` or `train` is wrong, or does not fit the network or the images.
        DataError: images and labels cannot be used.
        DivergedError: a loss is no longer a number.
    """
    data = from_tensors(images, labels, test_images, test_labels)
    sections = {"train": {**FINE_TUNING, **train}, "defences": {DEFENDED: dict(defence)}}
    study = small_study(seed, **sections, attacks={"mean_image": {}})  # a study has one
    network = partial(split_copy, model, cut, data.image_shape)
    return fit(study, DEFENDED, data.to(device or place(model)), network, surrogate=surrogate)


def small_study(seed: int, **sections: Any) -> Study:
    """Return a study of one seed, computed with as many threads as torch has now.

    Raises:
        ConfigError: a section is wrong.
    """
    rest = {"experiment": "notebook", "data": {}, "threads": torch.get_num_threads()}
    return parse(rest | {"seeds": [seed]} | sections)


def place(model: nn.Module) -> torch.device:
    """Return where the weights of a network are."""
    return next((weights.device for weights in model.parameters()), torch.device("cpu"))


def split_copy(model: nn.Module, cut: str | None, image_shape: Dimensions) -> SplitModel:
    """Return a copy of a network in two, for images (C, H, W).

    Raises:
        ValueError: it cannot be split there, or is split already.
    """
    copy = deepcopy(model)
    if isinstance(copy, SplitModel) and cut is None:
        return copy.measured(image_shape)
    if isinstance(copy, SplitModel):
        raise ValueError(f"cut: {cut!r}, but the network given is split already; leave it out")
    if cut is None:
        cuts = ", ".join(possible_cuts(copy))
        raise ValueError(f"cut: missing; name the last submodule on the client, one of {cuts}")
    return SplitModel.from_module(copy, cut, image_shape=image_shape)
