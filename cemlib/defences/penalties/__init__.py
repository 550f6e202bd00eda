"""Training penalties: defences that act through the loss and are gone once the model is deployed.

To add one: a file here with the formula, its source and how it fails, a class derived from
`Penalty`, a line in `PENALTIES`, and its options in the configuration.
"""

from typing import Any

from cemlib.defences.penalties.arl import AdversarialDecoder
from cemlib.defences.penalties.base import Penalty, Shape
from cemlib.defences.penalties.nopeek import NoPeek
from cemlib.errors import nearest

__all__ = ["PENALTIES", "Penalty", "build"]

PENALTIES: dict[str, type[Penalty]] = {"nopeek": NoPeek, "arl": AdversarialDecoder}
"""The class behind each name."""


def build(name: str, *, image_shape: Shape, feature_shape: Shape, **options: Any) -> Penalty:
    """Make the penalty of a name; its weights come from torch's global random state.

    Args:
        name: key of `PENALTIES`.
        image_shape: (C, H, W) of the images.
        feature_shape: (c, h, w) of the features.
        options: the penalty's own options, see its class.

    Raises:
        ValueError: no penalty has the name, or the penalty cannot work with the shapes.
        TypeError: the penalty has no such option, or lacks one that it needs.

    Example:
        >>> penalty = build("nopeek", image_shape=(3, 32, 32), feature_shape=(8, 8, 8), scale=0.1)
    """
    if name not in PENALTIES:
        known = ", ".join(PENALTIES)
        raise ValueError(f"no penalty is called {name!r}{nearest(name, PENALTIES)}; known: {known}")
    return PENALTIES[name](image_shape=image_shape, feature_shape=feature_shape, **options)
