"""The study that is measured: its configuration, and images and features made up for it.

Pixels are random: no cost here depends on what is in an image.
"""

import math
from typing import Any

import torch
from torch import Tensor

from cemlib.bench.scale import CLASSES, CLUSTERS, Scale
from cemlib.config import Study
from cemlib.config.load import parse
from cemlib.data.prepared import Prepared, Split
from cemlib.models import SplitModel
from cemlib.models import build as build_model

DEFENCES = ("noise", "clustering", "gated", "slot")
MEAN, STD = 0.5, 0.25


def study(scale: Scale, **changes: Any) -> Study:
    """The published protocol at a scale, bfloat16 where the hardware multiplies it.

    Args:
        scale: network, images and batches.
        changes: top-level keys of the configuration to replace.
    """
    raw = {
        "experiment": "bench",
        "seeds": [0],
        "threads": scale.threads,
        "data": {"image_size": scale.image_size},
        "model": {"name": scale.network, "cut": scale.cut},
        "train": {
            "batch_size": scale.batch,
            "precision": "auto",
            "augment": {"crop_padding": 4, "flip": True, "rotation": 15.0},
        },
        "defences": {n: {"surrogate": None if n == "noise" else n} for n in DEFENCES},
        "attacks": {"residual": {"batch_size": scale.attack_batch, "precision": "auto"}},
    }
    return parse(raw | changes)


def images(count: int, scale: Scale, seed: int = 0) -> Split:
    """Random uint8 images, classes in turn."""
    generator = torch.Generator().manual_seed(seed)
    shape = (count, scale.channels, scale.image_size, scale.image_size)
    pixels = torch.randint(256, shape, dtype=torch.uint8, generator=generator)
    return Split(pixels, torch.arange(count) % CLASSES)


def prepared(train: int, rest: int, scale: Scale) -> Prepared:
    """A data set of so many training images, and so many in val and in test."""
    return Prepared(
        train=images(train, scale, seed=0),
        val=images(rest, scale, seed=1),
        test=images(rest, scale, seed=2),
        mean=(MEAN,) * scale.channels,
        std=(STD,) * scale.channels,
        classes=tuple(f"class{label}" for label in range(CLASSES)),
        image_shape=(scale.channels, scale.image_size, scale.image_size),
    )


def split_model(scale: Scale) -> SplitModel:
    """The undefended split network, contiguous and on the CPU."""
    return build_model(
        scale.network,
        num_classes=CLASSES,
        image_size=scale.image_size,
        cut=scale.cut,
        mean=(MEAN,) * scale.channels,
        std=(STD,) * scale.channels,
    )


def feature_dim(scale: Scale) -> int:
    """Feature dimensions D of the network's cut."""
    with torch.device("meta"):
        return math.prod(split_model(scale).feature_shape)


def features(
    samples: int, dim: int, device: str, classes: int = CLASSES, seed: int = 1
) -> tuple[Tensor, Tensor]:
    """Features (N, D) in (0, 1) of classes with five clusters each, as a sigmoid releases them."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.arange(samples) % classes
    centres = torch.randn(classes, CLUSTERS, dim, generator=generator)
    cluster = torch.randint(CLUSTERS, (samples,), generator=generator)
    z = centres[y, cluster] + 0.5 * torch.randn(samples, dim, generator=generator)
    return z.sigmoid().to(device), y.to(device)
