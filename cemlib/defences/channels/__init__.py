"""Release channels: what stands between the client's features and everyone else.

Whatever a channel does, it does to the server's input in training, validation and test, and to the
attacker's input in the attacker's training and test. Nothing else is ever released.

To add one: a file here with the formula, its source and how it fails, a frozen dataclass derived
from `Channel`, a line in `CHANNELS`, and its options in the configuration.
"""

from typing import Any

from cemlib.config.errors import nearest
from cemlib.defences.channels.base import Channel
from cemlib.defences.channels.dropout import Dropout
from cemlib.defences.channels.local_dp import LocalDP
from cemlib.defences.channels.noise import GaussianNoise
from cemlib.defences.channels.topk import TopK

__all__ = ["CHANNELS", "Channel", "build"]

CHANNELS: dict[str, type[Channel]] = {
    "noise": GaussianNoise,
    "dropout": Dropout,
    "topk": TopK,
    "local_dp": LocalDP,
}
"""The class behind each name."""


def build(name: str, *, noise_std: float, **options: Any) -> Channel:
    """Make the channel of a name.

    Args:
        name: key of `CHANNELS`.
        noise_std: standard deviation of the Gaussian noise that every channel adds.
        options: the channel's own options, see its class.

    Raises:
        ValueError: no channel has the name.
        TypeError: the channel has no such option.

    Example:
        >>> build("dropout", noise_std=0.025, rate=0.3)
        Dropout(noise_std=0.025, rate=0.3)
    """
    if name not in CHANNELS:
        known = ", ".join(CHANNELS)
        raise ValueError(f"no channel is called {name!r}{nearest(name, CHANNELS)}; known: {known}")
    return CHANNELS[name](noise_std=noise_std, **options)
