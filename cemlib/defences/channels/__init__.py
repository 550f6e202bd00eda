"""Release channels, which turn the client's features into releases.

The server and the attackers see releases only, in training, validation and test.

To add one, write a file with its formula, its source and how it fails, and a frozen dataclass
derived from `Channel`; add a line to `CHANNELS` and its options to `cemlib.config.defences`.
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
    """Build a channel by name.

    Args:
        name: key of `CHANNELS`.
        noise_std: standard deviation of the Gaussian noise that every channel adds.
        options: options of the channel's class.

    Raises:
        ValueError: if the name is unknown.
        TypeError: if an option is unknown.

    Example:
        >>> build("dropout", noise_std=0.025, rate=0.3)
        Dropout(noise_std=0.025, rate=0.3)
    """
    if name not in CHANNELS:
        known = ", ".join(CHANNELS)
        raise ValueError(f"no channel is called {name!r}{nearest(name, CHANNELS)}; known: {known}")
    return CHANNELS[name](noise_std=noise_std, **options)
