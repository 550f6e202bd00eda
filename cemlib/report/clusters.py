"""Draw how the clusters that a surrogate fits move over the epochs of the training."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from scipy.special import entr

from cemlib.records.files import load_arrays
from cemlib.report.courses import BAND, LINE, mean_and_range
from cemlib.report.style import new_figure, readable, saying

_TITLES = {
    "variance": "variance within clusters",
    "movement": "distance moved by centroids",
    "effective": "effective number of clusters",
}
_CLASS = "#999999"


def read_course(path: Path) -> pd.DataFrame:
    """Reduce means (E, C, K, D), weights and variances (E, C, K) to a row per epoch and class.

    ``variance`` is that of the members about their centroid, averaged with the clusters' weights;
    ``movement`` the Euclidean distance of each centroid from the fit before, averaged with the new
    weights (NaN for the first fit); ``effective`` is exp of the entropy of the weights, from 1 (one
    cluster holds all) to K (all have the same weight).
    """
    found = {name: values.astype(float) for name, values in load_arrays(path).items()}
    weights = found["weights"]
    moved = np.linalg.norm(np.diff(found["means"], axis=0), axis=-1)
    first = np.full_like(weights[:1, :, 0], np.nan)
    numbers = {
        "variance": (weights * found["variances"]).sum(-1),
        "movement": np.concatenate([first, (weights[1:] * moved).sum(-1)]),
        "effective": np.exp(entr(weights).sum(-1)),
    }
    epoch, label = np.indices(weights.shape[:2]).reshape(2, -1)
    places = {"epoch": found["epochs"][epoch], "class": label}
    return pd.DataFrame(places | {name: values.ravel() for name, values in numbers.items()})


def cluster_course(clusters: Mapping[str, Sequence[Path]]) -> Figure:
    """Draw one row of panels per defence: thin lines are classes, the thick one is their mean.

    Values are means over the seeds, and the band spans the seeds' class means.
    """
    if not clusters:
        return saying("no surrogate of this study fits clusters")
    figure, panels = new_figure(0.8 + 1.6 * len(clusters), 3, len(clusters), share_x=True)
    for row, (defence, paths) in enumerate(clusters.items()):
        courses = pd.concat(read_course(path).assign(seed=i) for i, path in enumerate(paths))
        for panel, name in zip(panels[3 * row :], _TITLES, strict=False):
            _draw(panel, courses, name)
            panel.set_title("" if row else _TITLES[name])
        panels[3 * row].set_ylabel(readable(defence))
    for panel in panels[-3:]:
        panel.set_xlabel("epoch")
    single = Line2D([], [], color=_CLASS, linewidth=0.6, label="single classes")
    mean = Line2D([], [], color=LINE, label="mean over classes")
    figure.legend(handles=[single, mean, BAND], loc="outside lower center", ncols=3)
    return figure


def _draw(panel: Axes, courses: pd.DataFrame, name: str) -> None:
    classes = courses.groupby(["epoch", "class"])[name].mean().unstack()
    panel.plot(classes.index.to_numpy(), classes.to_numpy(), color=_CLASS, linewidth=0.6)
    of_seeds = courses.groupby(["seed", "epoch"])[[name]].mean().reset_index()
    mean_and_range(panel, of_seeds, name, LINE)
    panel.set_ylim(bottom=0)
