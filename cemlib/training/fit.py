"""Training in memory, without files: `defend` one network, or `fit` a defence of a study."""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

import torch
from torch import nn

from cemlib.config import ConfigError, Study, parse
from cemlib.config.study import JUDGE, JUDGE_SEED
from cemlib.data.prepared import Prepared
from cemlib.data.tensors import Images, Labels, from_tensors
from cemlib.defences.deployed import Deployed
from cemlib.models.cutting import others
from cemlib.models.split import Dimensions, SplitModel, device_of
from cemlib.numerics.precision import set_up
from cemlib.records.progress import progress
from cemlib.training.trainer import SHOWN, Network, begin

DEFENDED = "defended"
FINE_TUNING = MappingProxyType({"epochs": 20, "lr": 0.01, "schedule": "one_cycle"})


@dataclass(frozen=True)
class Trained:
    """A trained classifier behind its defence.

    Attributes:
        defence: Name of the defence in the study, or `judge`.
        deployed: The split model of the deployed epoch, and its release channel.
        history: One row for every epoch, as in a run's `history.jsonl`.
        epoch: Number of the deployed epoch, from 1 on.
        scores: The scores of `cemlib.training.selection.Selection.final_scores`.
        selected_on: The option `train.select`, by which the epoch was chosen.
    """

    defence: str
    seed: int
    deployed: Deployed
    history: list[dict[str, Any]]
    epoch: int
    scores: dict[str, float]
    selected_on: str = "last"


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
    seed: int = 0,
    device: torch.device | str | None = None,
) -> Trained:
    """Train a copy of a network behind a defence, starting from its weights.

    Without `test_images` a quarter of the images is the test set, the same that `cemlib.audit`
    attacks when it gets the same images; a tenth of the training images is for validation. torch's
    global random state is changed.

    Args:
        model: Maps images (B, C, H, W) in [0, 1] to logits; use a `cemlib.models.split.SplitModel`
            if it needs normalised images, or should have a bottleneck. It is not changed.
        cut: Name of the last submodule on the client; None for a `SplitModel`.
        images: Tensor, array or Dataset, as `cemlib.data.tensors.from_tensors` takes them.
        labels: Integers (N,), from 0 on; None for a Dataset.
        test_images: A test set; all of `images` are then for training and validation.
        test_labels: Their labels.
        defence: A defence's section of a study, such as `{"noise_std": 0.2, "surrogate": "gated"}`.
        train: Options of a study's section `train`, which override those of `FINE_TUNING`.
        seed: Seed of everything random except the split.
        device: Where to train; by default where the weights of the network are.

    Raises:
        ConfigError: if `defence` or `train` is wrong, or does not fit the network or the images.
        DataError: if images and labels cannot be used.
        DivergedError: if a loss is not finite.
    """
    data = from_tensors(images, labels, test_images, test_labels)
    sections = {"train": {**FINE_TUNING, **train}, "defences": {DEFENDED: defence}}
    study = small_study(seed, **sections, attacks={"mean_image": {}})  # a study needs an attack
    if study.defences[DEFENDED].model:
        raise ConfigError("defence: model: has no effect on a network of your own; remove it")
    network = partial(split_copy, model, cut, data.image_shape)
    return fit(study, DEFENDED, data.to(device or device_of(model)), network)


@torch.enable_grad()
def fit(
    study: Study,
    defence: str,
    data: Prepared,
    network: Network,
    *,
    seed: int | None = None,
) -> Trained:
    """Train one defence of a study on data and a network in memory, without writing files.

    On a CPU the result is, bit for bit, that of the training job with the same settings, data,
    network, seed and number of threads. The study's sections `data` and `model`, and a defence's
    `model`, are not used. torch's number of CPU threads becomes the study's `threads`; torch's
    random state, its precision of float32 products and, on a GPU, cuDNN's options are changed.

    Args:
        study: The settings, from `cemlib.config.parse`.
        defence: One of its defences, or `judge`, the undefended classifier that scores attacks.
        data: For example from `cemlib.data.tensors.from_tensors`; their device is used.
        network: Returns a new split network; called once, with torch's random state set from the
            seed.
        seed: Seed of the training; by default the study's first, or the judge's own.

    Raises:
        ConfigError: if the study has no such defence, or it does not fit the network or the data.
        DivergedError: if a loss is not finite.
    """
    if defence != JUDGE and defence not in study.defences:
        raise ConfigError(f"no defence {defence!r} in this study (it has {list(study.defences)})")
    set_up(data.train.images.device, study.threads)
    if seed is None:
        seed = JUDGE_SEED if defence == JUDGE else study.seeds[0]
    trainer = begin(study, defence, seed, data, network)
    check_logits(trainer.deployed, data)
    epochs = trainer.settings.epochs
    report = progress(f"train {defence} seed{seed}", epochs)
    for number in range(1, epochs + 1):
        row = trainer.epoch(number)
        report(number, {name: row[name] for name in SHOWN})
    epoch, scores = trainer.selection.deploy(), trainer.selection.final_scores()
    chosen = trainer.settings.select
    return Trained(defence, seed, trainer.deployed, trainer.history, epoch, scores, chosen)


def check_logits(deployed: Deployed, data: Prepared, name: str = "model") -> None:
    """Raise ConfigError unless a network takes the images and has logits for all their classes."""
    try:
        features = deployed.features(data.train.images[:1])
        logits = deployed.logits(features, torch.Generator(features.device))
    except Exception as error:  # the network's own code may raise anything
        raise ConfigError(
            f"{name}: returns no logits for images of shape {data.image_shape}"
            f" ({type(error).__name__}: {error})"
        ) from error
    wanted = len(data.classes)
    if logits.ndim != 2 or logits.shape[1] < wanted:
        raise ConfigError(
            f"{name}: returns {tuple(logits.shape)} for one image; the data have {wanted} classes,"
            f" so it must return logits (1, {wanted})"
        )


def small_study(seed: int, **sections: Any) -> Study:
    """Return a study of one seed with torch's thread count; raise ConfigError if it is faulty."""
    rest = {"experiment": "notebook", "data": {}, "threads": torch.get_num_threads()}
    return parse(rest | {"seeds": [seed]} | sections)


def split_copy(model: nn.Module, cut: str | None, image_shape: Dimensions) -> SplitModel:
    """Return a split copy; raise ValueError if `cut` does not fit or weights are not float32."""
    check_type("model", model)
    copy = deepcopy(model)
    if isinstance(copy, SplitModel) and cut is None:
        return copy.measured(image_shape)
    if isinstance(copy, SplitModel):
        raise ValueError(f"cut: {cut!r}, but the network given is split already; leave it out")
    if not isinstance(cut, str):
        found = "missing" if cut is None else f"{cut!r} is not a name"
        raise ValueError(f"cut: {found}; name the last submodule on the client; {others(copy)}")
    return SplitModel.from_module(copy, cut, image_shape=image_shape)


def check_type(name: str, model: nn.Module) -> None:
    """Raise ValueError if a network has weights of another type than the images."""
    types = {each.dtype for each in model.parameters() if each.is_floating_point()}
    if other := types - {torch.float32}:
        found = " and ".join(sorted(str(each).removeprefix("torch.") for each in other))
        raise ValueError(f"{name}: weights are {found} and images float32; give {name}.float()")
