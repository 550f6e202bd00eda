"""Attack your own trained network in one call."""

import warnings
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import pandas as pd
import torch
from PIL import Image
from torch import Tensor, nn

from cemlib.data.tensors import Images, Labels, from_tensors
from cemlib.defences.channels import build as build_channel
from cemlib.defences.deployed import Deployed
from cemlib.evaluation.attack import Attacked, attack, table
from cemlib.evaluation.pictures import showcase, strip
from cemlib.models.split import Dimensions, SplitModel, device_of
from cemlib.numerics.precision import set_up
from cemlib.numerics.seeds import generator
from cemlib.training.fit import Trained, check_logits, check_type, small_study, split_copy

NETWORK = "network"
GAP = 4  # white pixels between the images of a picture
ATTACKS: Mapping[str, Any] = MappingProxyType(
    {"decoder": {"epochs": 20}, "linear": {}, "mean_image": {}}
)
COLUMNS = {  # columns of the summary, and their names in an audit
    "knowledge": "knowledge",
    "attack": "attack",
    "n_images": "images",
    "mse_mean": "mse",
    "ssim_mean": "ssim",
    "recon_top1_mean": "identified",
    "converged": "converged",
    "strongest": "strongest",
}


@dataclass(frozen=True)
class Audit:
    """The results of the attacks on a network.

    Attributes:
        frame: A row per knowledge and attack, and the `worst_case` of each knowledge: the number of
            attacked `images`; mean `mse` (higher is more private) and `ssim` of the
            reconstructions; the share `identified` by the judge; whether the attack had
            `converged` (else a longer one may find more); and which was the `strongest`.
        accuracy: Share of the `train_data` attacker's targets that the network classifies correctly
            from the released features.
        attacked: The results of all attacks.
        labels: Labels (N,) of the targets of the `train_data` attacker, on the CPU.
    """

    frame: pd.DataFrame
    accuracy: float
    attacked: list[Attacked]
    labels: Tensor

    def __repr__(self) -> str:
        shown = self.frame.to_string(index=False, float_format="{:.4f}".format)
        return f"{shown}\naccuracy on these images: {100 * self.accuracy:.1f} %"

    def pictures(self, attack: str | None = None, knowledge: str = "train_data") -> Image.Image:
        """Return a picture of images above their reconstructions: one per class, ten at most.

        By default `attack` is the one with the lowest MSE. `knowledge` may be `public_data`, too.

        Raises:
            ValueError: if there are no reconstructions by that attack.
        """
        found = [
            (each.scores["mse"], each.originals, each.reconstructions)
            for each in self.attacked
            if each.reconstructions is not None
            and each.knowledge == knowledge
            and attack in (None, each.attack)
        ]
        if not found:
            names = ", ".join(
                f"{each.attack} with {each.knowledge}"
                + (f" (failed: {each.reason})" if each.reason else "")
                for each in self.attacked
            )
            wanted = f"{attack or 'any attack'} with {knowledge}"
            raise ValueError(f"attack: no reconstructions by {wanted}; the attacks were {names}")
        _, originals, answers = min(found, key=lambda each: each[0])
        first = len(self.labels) - len(originals)
        rows = [row - first for row in showcase(self.labels, first)]
        return strip(originals[rows], answers[rows], GAP)


@torch.inference_mode(mode=False)  # some attacks need gradients
def audit(
    model: nn.Module | Deployed | Trained,
    cut: str | None = None,
    *,
    images: Images,
    labels: Labels | None = None,
    test_images: Images | None = None,
    test_labels: Labels | None = None,
    noise_std: float | None = None,
    attacks: Mapping[str, Any] = ATTACKS,
    judge: nn.Module | None = None,
    flip: bool = False,
    seed: int = 0,
    device: torch.device | str | None = None,
) -> Audit:
    """Reconstruct images from what a trained network releases at a cut.

    The attacker knows the network and its channel, and sees one release of each attacked image,
    or the mean of several if the attack has `queries`. With `train_data` it attacks `test_images`,
    or a quarter of `images`, with the same share of every class. It trains on the rest of `images`,
    of which it holds out a tenth; so these should be the network's training images. With
    `public_data` it has nine tenths of the images that `train_data` attacks, holds out a tenth of
    them, and attacks the last tenth. The split depends on the labels alone, so the images attacked
    after `cemlib.defend` are those that it did not train on. torch's global random state is
    changed.

    Args:
        model: Maps images (B, C, H, W) in [0, 1] to logits; a `cemlib.models.split.SplitModel` if
            it needs them normalised; or the result of `cemlib.defend`. It is not changed: a copy is
            attacked, in evaluation mode.
        cut: Name of the last submodule on the client; None if the model is split already.
        images: Tensor, array or Dataset, as `cemlib.data.tensors.from_tensors` takes them.
        labels: Integers (N,), from 0 on; None for a Dataset. A class may be absent.
        test_images: The images to attack; None for a quarter of `images`.
        test_labels: Their labels.
        noise_std: Standard deviation of the Gaussian noise on released features; default: 0. The
            result of `cemlib.defend` has a channel of its own.
        attacks: The section `attacks` of a study.
        judge: Classifies reconstructions: maps images (B, C, H, W) in [0, 1] to logits. Default:
            the network itself without its channel. To compare defences, give all the same
            undefended one.
        flip: Whether mirror images look natural: `decoder` and `random_features` then use them.
        seed: Seed of everything random except the split.
        device: Where to compute; by default where the weights of the network are.

    Raises:
        ConfigError: if `attacks` or `noise_std` is wrong, or the labels have more classes than the
            network or the judge.
        DataError: if images and labels cannot be used, or are too few.
        ValueError: if the network cannot be split there, `cut` or `noise_std` is given for a result
            of `cemlib.defend`, weights are not float32, or `perceptual` finds no layer to compare.
    """
    data = from_tensors(images, labels, test_images, test_labels, every_class=False)
    noise = {NETWORK: {"noise_std": noise_std or 0.0}}
    training = {"augment": {"flip": flip}}
    study = small_study(seed, defences=noise, attacks=attacks, train=training)
    if count := data.duplicates_train_test:
        told = f"{count} attacked images equal images that the train_data attacker has"
        warnings.warn(f"{told}, so its error is too low", stacklevel=3)  # 2 is the decorator
    victim = _victim(model, cut, data.image_shape, noise_std)
    data = data.to(device or device_of(victim.model))
    if judge is not None:
        check_type("judge", judge)
    recogniser = SplitModel(_Contiguous(), victim.model if judge is None else deepcopy(judge))
    silent = Deployed(recogniser, build_channel("noise", noise_std=0.0))
    set_up(data.test.images.device, study.threads)
    for name, each in (("model", victim), ("judge", silent)):
        each.model.to(data.test.images.device)
        check_logits(each, data, name)
    draws = generator(seed, "test_noise", device=data.test.images.device)
    accuracy = victim.score(data.test.images, data.test.labels, draws)["top1"]
    network = Trained(NETWORK, seed, victim, [], 0, {"top1": accuracy})
    attacked = attack(study, network, Trained("judge", seed, silent, [], 0, {}), data)
    summary = table([network], attacked)
    doubtful = summary["n_unconverged"] + summary["n_unconverged_recon"] + summary["n_failed"]
    summary["converged"] = doubtful == 0
    frame = summary.rename(columns=COLUMNS)[list(COLUMNS.values())]
    return Audit(frame, accuracy, attacked, data.test.labels.cpu())


class _Contiguous(nn.Module):
    """Returns images in the usual memory order, which `view` in a network needs."""

    def forward(self, images: Tensor) -> Tensor:
        return images.contiguous()


def _victim(
    model: nn.Module | Deployed | Trained,
    cut: str | None,
    image_shape: Dimensions,
    noise_std: float | None,
) -> Deployed:
    """Return a copy of the network behind its channel."""
    found = model.deployed if isinstance(model, Trained) else model
    if not isinstance(found, Deployed):
        channel = build_channel("noise", noise_std=noise_std or 0.0)
        return Deployed(split_copy(found, cut, image_shape), channel)
    if cut is not None or noise_std is not None:
        raise ValueError("cut, noise_std: a defended network has its own of both; leave them out")
    return replace(found, model=deepcopy(found.model).measured(image_shape))
