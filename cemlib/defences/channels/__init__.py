"""Release channels, which turn the client's features into releases.

docs/extending.md says how to add one.
"""

from typing import Any

from cemlib.config.defences import DefenceConfig
from cemlib.config.errors import validated
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
    """Build a channel of `CHANNELS`, with options of its section of the configuration.

    `noise_std` is the standard deviation of the Gaussian noise that every channel adds.

    Raises:
        ConfigError: if the name or an option is unknown, or a value is out of range.

    Example:
        >>> build("dropout", noise_std=0.025, rate=0.3)
        Dropout(noise_std=0.025, settings=DropoutChannel(name='dropout', rate=0.3))
    """
    section = {"name": name} | options
    defence = validated(DefenceConfig, {"channel": section, "noise_std": noise_std})
    return CHANNELS[name](noise_std, defence.channel)
