"""Set up what is measured: the published study with few images, random pixels and features.

No cost here depends on what is in an image.
"""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from cemlib.config import Study
from cemlib.config.load import parse
from cemlib.data.prepared import Prepared, Split
from cemlib.models import SplitModel, build

CLASSES, CLUSTERS, NOISE_STD = 10, 5, 0.025  # of the published study
SURROGATES = ("clustering", "gated", "slot")  # whose training steps are timed


@dataclass(frozen=True)
class Scale:
    """Sizes of everything that is measured.

    Attributes:
        cut: layer entries on the client.
        batch: images of a training step.
        attack_batch: images of an attacker's step.
        samples: training images of the study, as many as a fit has rows.
        steps: steps of a timed pass; a GPU needs hundreds.
        rounds: turns of each side.
        seconds: shortest time of a turn.
        images: number of images for SSIM, and of files to read.
        threads: threads on the CPU, for our code and the references.
        workers: loader processes of the references.
    """

    network: str = "vgg11"
    cut: int = 4
    image_size: int = 32
    batch: int = 128
    attack_batch: int = 256
    samples: int = 50_000
    steps: int = 2
    rounds: int = 3
    seconds: float = 0.2
    images: int = 2_000
    threads: int = 1
    workers: int = 2
    device: str = "cpu"

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """Return the shape (C, H, W) of the images."""
        return 3, self.image_size, self.image_size


def study(scale: Scale, **changes: Any) -> Study:
    """Return the published protocol in the best precision; `changes` replace top-level keys."""
    augment = {"crop_padding": 4, "flip": True, "rotation": 15.0}
    train = {"batch_size": scale.batch, "precision": "auto", "augment": augment}
    attack = {"batch_size": scale.attack_batch, "precision": "auto"}
    raw = {
        "experiment": "benchmarks",
        "seeds": [0],
        "threads": scale.threads,
        "data": {"image_size": scale.image_size},
        "model": {"name": scale.network, "cut": scale.cut},
        "train": train,
        "defences": {"noise": {}} | {name: {"surrogate": name} for name in SURROGATES},
        "attacks": {"decoder": attack, "residual": attack},
    }
    return parse(raw | changes)


def images(count: int, scale: Scale, seed: int = 0) -> Split:
    """Return random uint8 images, with the classes in turn."""
    generator = torch.Generator().manual_seed(seed)
    pixels = torch.randint(256, (count, *scale.image_shape), dtype=torch.uint8, generator=generator)
    return Split(pixels, torch.arange(count) % CLASSES)


def prepared(train: int, rest: int, scale: Scale) -> Prepared:
    """Return a data set of `train` training images, and `rest` images each in `val` and `test`."""
    return Prepared(
        train=images(train, scale, seed=0),
        val=images(rest, scale, seed=1),
        test=images(rest, scale, seed=2),
        mean=(0.5,) * 3,
        std=(0.25,) * 3,
        classes=tuple(f"class{label}" for label in range(CLASSES)),
    )


def split_model(scale: Scale) -> SplitModel:
    """Return the undefended split network, contiguous and on the CPU."""
    return build(
        scale.network,
        num_classes=CLASSES,
        image_size=scale.image_size,
        cut=scale.cut,
        mean=(0.5,) * 3,
        std=(0.25,) * 3,
    )


def feature_dim(scale: Scale) -> int:
    """Return the number of the network's features at its cut."""
    with torch.device("meta"):
        return math.prod(split_model(scale).feature_shape)


def features(count: int, dim: int, device: str, seed: int = 1) -> tuple[Tensor, Tensor]:
    """Return features (N, D) in (0, 1) of classes with five clusters each, and labels (N,)."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.randint(CLASSES, (count,), generator=generator)
    cluster = torch.randint(CLUSTERS, (count,), generator=generator)
    centres = torch.randn(CLASSES, CLUSTERS, dim, generator=generator)
    z = centres[y, cluster] + 0.5 * torch.randn(count, dim, generator=generator)
    return z.sigmoid().to(device), y.to(device)
