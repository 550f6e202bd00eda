from typing import Any

from cemlib.config.defences import DefenceConfig
from cemlib.config.errors import validated
from cemlib.defences.penalties import PENALTIES, Penalty


def build(name: str, *, image_shape: Any, feature_shape: Any, **options: Any) -> Penalty:
    """Build a penalty from its section of a configuration."""
    section = validated(DefenceConfig, {"penalty": {"name": name, **options}}).penalty
    return PENALTIES[name](section, image_shape=image_shape, feature_shape=feature_shape)
