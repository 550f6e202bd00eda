"""How costs grow: one of N, C, K and D at a time, around the published study.

A line goes through rising values of one quantity and ends, by design, after the first point that
took longer than the scale's patience, data and repeats included: the rest would take minutes, and
the slope is known by then. Where N is not varied, fits are of a fifth of the study's samples.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch

from cemlib.bench.scale import CLASSES, CLUSTERS, Scale
from cemlib.bench.subject import feature_dim, features
from cemlib.bench.surrogates import fit_call, penalty_work, scikit_learn
from cemlib.bench.timing import SPREAD, Timing, timed
from cemlib.surrogates import SURROGATES

CLUSTERED = ("clustering", "gmm")
PART = 5  # of the samples are fitted where N is not varied
MOST_REPEATS = 3


@dataclass(frozen=True)
class Point:
    """Sizes of a measurement; by the letters of the axes N, C, K and D."""

    samples: int
    classes: int
    clusters: int
    dim: int

    def moved(self, quantity: str, value: int) -> "Point":
        """The same with another N, C, K or D."""
        field = {"N": "samples", "C": "classes", "K": "clusters", "D": "dim"}[quantity]
        return replace(self, **{field: value})


Measure = Callable[[Point, Scale], Timing]


def scaling(scale: Scale) -> dict[str, Any]:
    """Lines by the quantity that grows (`N`, `C`, `K`, `D`) and by what is measured.

    Each has `points` of `value`, `milliseconds`, `fastest` and `slowest`, the `slope` of a straight
    line through their logarithms (null for a single point), and `ended_before`, the first value
    that was left out (null where none was).
    """
    torch.set_num_threads(scale.threads)
    dim = feature_dim(scale)
    start = Point(max(1, scale.samples // PART), CLASSES, CLUSTERS, dim)
    along = {
        "N": scale.sizes,
        "C": scale.class_counts,
        "K": scale.cluster_counts,
        "D": scale.dims,
    }
    return {
        quantity: {
            label: _line(measure, start, quantity, along[quantity], scale)
            for label, measure in _measured(quantity).items()
        }
        for quantity in along
    }


def _measured(quantity: str) -> dict[str, Measure]:
    """What is measured along a quantity: all that it decides."""
    fits: dict[str, Measure] = {f"{name}, fit": partial(_fit, name) for name in CLUSTERED}
    if quantity == "N":
        return fits | {"K-means of scikit-learn": _scikit_learn}
    names = CLUSTERED if quantity == "K" else SURROGATES
    penalties: dict[str, Measure] = {name: partial(_penalty, name) for name in names}
    return penalties | {"clustering, fit": fits["clustering, fit"]}


def _line(
    measure: Measure, start: Point, quantity: str, values: Sequence[int], scale: Scale
) -> dict[str, Any]:
    points: list[dict[str, float]] = []
    for value in values:
        began = time.perf_counter()
        timing = measure(start.moved(quantity, value), scale)
        points.append({"value": value} | {name: timing[name] for name in SPREAD})
        if time.perf_counter() - began > scale.patience:
            break
    left = values[len(points) :]
    return {"points": points, "slope": slope(points), "ended_before": left[0] if left else None}


def slope(points: Sequence[dict[str, float]]) -> float | None:
    """Exponent of the power law through points, by least squares on logarithms."""
    if len(points) < 2:
        return None
    logs = np.log([[point["value"], point["milliseconds"]] for point in points])
    return float(np.polyfit(logs[:, 0], logs[:, 1], 1)[0])


def _penalty(name: str, point: Point, scale: Scale) -> Timing:
    work = penalty_work(name, _options(name, point), scale, point.dim, point.classes)
    if work.count > 1:  # many steps are a warm-up and a mean of themselves
        return timed(work.run, 1, scale.device, warm_up=False, count=work.count)
    return timed(work.run, _repeats(scale), scale.device)


def _fit(name: str, point: Point, scale: Scale) -> Timing:
    z, y = features(point.samples, point.dim, scale.device, point.classes)
    call = fit_call(name, _options(name, point), z, y, point.classes)
    return timed(call, _repeats(scale), scale.device, warm_up=False)


def _scikit_learn(point: Point, scale: Scale) -> Timing:
    z, y = features(point.samples, point.dim, scale.device, point.classes)
    call = scikit_learn("clustering", z, y)
    return timed(call, _repeats(scale), scale.device, warm_up=False)


def _options(name: str, point: Point) -> dict[str, Any]:
    return {"clusters": point.clusters} if name in CLUSTERED else {}


def _repeats(scale: Scale) -> int:
    return min(scale.repeats, MOST_REPEATS)
