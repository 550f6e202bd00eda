"""Surrogates of conditional entropy: penalties that keep the features of a class close together.

docs/surrogates/ says how each fails, and what shows it; docs/extending.md says how to add one.
"""

from typing import Any

from cemlib.config.defences import DefenceConfig
from cemlib.config.errors import validated
from cemlib.surrogates.base import Fitted, Sizes, Surrogate
from cemlib.surrogates.clustering import Clustering
from cemlib.surrogates.fusion import ParallelFusion, ShortcutFusion
from cemlib.surrogates.gated import GatedAttention
from cemlib.surrogates.gmm import GaussianMixture
from cemlib.surrogates.image_aware import ImageAware
from cemlib.surrogates.logdet import LogDet
from cemlib.surrogates.logdet_gated import LogDetGated
from cemlib.surrogates.slot import SlotAttention
from cemlib.surrogates.task_aware import TaskAware

__all__ = ["SURROGATES", "Surrogate", "build"]

SURROGATES: dict[str, type[Surrogate]] = {
    "clustering": Clustering,
    "gmm": GaussianMixture,
    "gated": GatedAttention,
    "slot": SlotAttention,
    "parallel": ParallelFusion,
    "shortcut": ShortcutFusion,
    "logdet": LogDet,
    "logdet_gated": LogDetGated,
    "task_aware": TaskAware,
    "image_aware": ImageAware,
}
"""The class behind each name."""


def build(
    name: str,
    *,
    dim: int,
    num_classes: int,
    noise_std: float,
    num_train: int | None = None,
    **options: Any,
) -> Surrogate:
    """Build a surrogate of `SURROGATES` with options of its section of the configuration.

    It is for features (B, `dim`) and release noise of standard deviation `noise_std`. `num_train`
    is the number of training images behind statistics that are loaded; `fit` replaces it.

    Raises:
        ConfigError: if the name or an option is unknown, or a value is out of range.

    Example:
        >>> import torch
        >>> penalty = build("gated", dim=4, num_classes=2, noise_std=0.1, moments="raw")
        >>> z, y = torch.eye(4).requires_grad_(), torch.tensor([0, 0, 1, 1])
        >>> value = penalty(z, y)
        >>> value.backward()
        >>> bool(value > 0), z.grad.shape
        (True, torch.Size([4, 4]))
    """
    section = {"name": name} | options
    defence = validated(DefenceConfig, {"surrogate": section, "noise_std": noise_std})
    sizes: Sizes = {"dim": dim, "num_classes": num_classes, "noise_std": noise_std}
    assert defence.surrogate is not None
    surrogate = SURROGATES[name](defence.surrogate, **sizes)
    if num_train is not None and isinstance(surrogate, Fitted):
        surrogate.num_train.fill_(num_train)
    return surrogate
