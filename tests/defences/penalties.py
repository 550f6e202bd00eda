from typing import Any

import numpy as np
from sklearn.preprocessing import KernelCenterer

from cemlib.config.defences import DefenceConfig
from cemlib.config.errors import validated
from cemlib.defences.penalties import PENALTIES, Penalty


def plain_alignment(k: np.ndarray, other: np.ndarray) -> float:
    """Cosine of two matrices (N, N) of kernels or distances, centred by scikit-learn."""
    k, other = (KernelCenterer().fit_transform(each.copy()) for each in (k, other))
    return float((k * other).sum() / np.linalg.norm(k) / np.linalg.norm(other))


def build(name: str, *, image_shape: Any, feature_shape: Any, **options: Any) -> Penalty:
    """Build a penalty from its section of a configuration."""
    section = validated(DefenceConfig, {"penalty": {"name": name, **options}}).penalty
    return PENALTIES[name](section, image_shape=image_shape, feature_shape=feature_shape)
