"""Training penalties: defences that act through the loss and are gone once the model is deployed.

To add one: a file here with the formula, its source and how it fails, a class derived from
`Penalty`, a line in `PENALTIES`, and its options in the configuration.
"""

from typing import Any

from cemlib.config.defences import DefenceConfig
from cemlib.config.load import validated
from cemlib.defences.penalties.arl import AdversarialDecoder
from cemlib.defences.penalties.base import Penalty, Shape
from cemlib.defences.penalties.nopeek import NoPeek

__all__ = ["PENALTIES", "Penalty", "build"]

PENALTIES: dict[str, type[Penalty]] = {"nopeek": NoPeek, "arl": AdversarialDecoder}
"""The class behind each name."""


def build(name: str, *, image_shape: Shape, feature_shape: Shape, **options: Any) -> Penalty:
    """Make the penalty of a name; its weights come from torch's global random state.

    Args:
        name: key of `PENALTIES`.
        image_shape: (C, H, W) of the images.
        feature_shape: (c, h, w) of the features.
        options: those of its section of the configuration.

    Raises:
        ConfigError: no penalty has the name or the option, or an option's value is out of range.
        ValueError: the penalty cannot work with the shapes.

    Example:
        >>> penalty = build("nopeek", image_shape=(3, 32, 32), feature_shape=(8, 8, 8), scale=0.1)
    """
    section = validated(DefenceConfig, {"penalty": {"name": name, **options}}).penalty
    assert section is not None
    return PENALTIES[name](section, image_shape=image_shape, feature_shape=feature_shape)
