"""How the clusters that a surrogate fits move over the epochs of the training."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.special import entr

from cemlib.records.files import FileError, load_arrays
from cemlib.report.style import new_figure, readable, saying

Array = NDArray[np.float64]

_SHAPES = {"epochs": 1, "means": 4, "weights": 3, "variances": 3}


@dataclass(frozen=True)
class Course:
    """Hold the numbers of one run's `clusters.safetensors`, by epoch (E,) and class (E, C)."""

    epochs: Array
    variance: Array
    movement: Array
    effective: Array


_TITLES = {
    "variance": "variance within clusters",
    "movement": "distance moved by centroids",
    "effective": "effective number of clusters",
}


def read_course(path: Path) -> Course:
    """Reduce a run's fitted clusters to three numbers per class and epoch.

    ``variance``: of the members about their centroid, averaged with the clusters' weights.
    ``movement``: Euclidean distance of each centroid from the fit before, averaged with the new
    weights; NaN for the first fit. ``effective``: exp of the entropy of the weights, from 1 (one
    cluster holds all) to K (all alike).

    Raises:
        FileError: if the file is missing or does not hold epochs (E,), means (E, C, K, D), weights
            and variances (E, C, K).
    """
    found = {name: values.astype(float) for name, values in load_arrays(path).items()}
    _check(path, found)
    weights = found["weights"]
    moved = np.linalg.norm(np.diff(found["means"], axis=0), axis=-1)
    first = np.full_like(weights[:1, :, 0], np.nan)
    return Course(
        epochs=found["epochs"],
        variance=(weights * found["variances"]).sum(-1),
        movement=np.concatenate([first, (weights[1:] * moved).sum(-1)]),
        effective=np.exp(entr(weights).sum(-1)),
    )


def cluster_course(clusters: Mapping[str, Sequence[Path]]) -> Figure:
    """Draw one row of panels per defence: thin lines are classes, the thick one is their mean.

    Args:
        clusters: for each defence the ``clusters.safetensors`` of its seeds; values are means over
            the seeds, the band spans the seeds' class means.

    Raises:
        FileError: as for `read_course`, and if seeds were fitted at different epochs.
    """
    if not clusters:
        return saying("no surrogate of this study fits clusters")
    figure, panels = new_figure(0.8 + 1.6 * len(clusters), 3, len(clusters), share_x=True)
    for row, (defence, paths) in enumerate(clusters.items()):
        courses = _courses(paths)
        for panel, name in zip(panels[3 * row :], _TITLES, strict=False):
            _draw(panel, courses, name)
            panel.set_title("" if row else _TITLES[name])
        panels[3 * row].set_ylabel(readable(defence))
    for panel in panels[-3:]:
        panel.set_xlabel("epoch")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def _check(path: Path, found: Mapping[str, Array]) -> None:
    for name, dimensions in _SHAPES.items():
        if name not in found or found[name].ndim != dimensions:
            shape = tuple(found[name].shape) if name in found else "nothing"
            raise FileError(
                f"{path}: {name} should have {dimensions} dimensions, found {shape}; "
                "delete it and rerun the training"
            )
    shape = found["weights"].shape
    if not (
        found["means"].shape[:3] == found["variances"].shape == shape
        and len(found["epochs"]) == shape[0]
    ):
        raise FileError(
            f"{path}: epochs, means, weights and variances do not agree on their shape; "
            "delete it and rerun the training"
        )


def _courses(paths: Sequence[Path]) -> list[Course]:
    courses = [read_course(path) for path in paths]
    for path, course in zip(paths, courses, strict=True):
        if not np.array_equal(course.epochs, courses[0].epochs):
            raise FileError(
                f"{path}: clusters of other epochs than in {paths[0]}; rerun the older training"
            )
    return courses


def _draw(panel: Axes, courses: Sequence[Course], name: str) -> None:
    epochs = courses[0].epochs
    values = np.stack([getattr(course, name) for course in courses])  # (seeds, E, C)
    for i, line in enumerate(values.mean(0).T):
        label = "single classes" if i == 0 else None
        panel.plot(epochs, line, color="#999999", linewidth=0.6, label=label)
    of_seeds = values.mean(2)
    panel.plot(epochs, of_seeds.mean(0), color="black", label="mean over classes")
    low, high = of_seeds.min(0), of_seeds.max(0)
    panel.fill_between(
        epochs, low, high, color="#0072B2", alpha=0.35, linewidth=0, label="range of seeds"
    )
    panel.set_ylim(bottom=0)
