"""Draw the figures of a labelling study."""

import math

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cemlib.config.labelling import LabellingStudy
from cemlib.labelling.tables import Results, epsilon_table
from cemlib.report.statistics import mean_interval
from cemlib.report.style import explain_empty, looks, new_figure

NAMES = {"init": "before", "capc": "CaPC-style", "iel": "IEL"}
LOOKS = looks(list(NAMES))
NO_NOISE = 4.0  # its position on the epsilon axis, as a multiple of the largest epsilon
ACCURACY = "test accuracy [%]"


def accuracy(results: Results, study: LabellingStudy) -> Figure:
    """Draw accuracy by number of images: every repeat, and their mean with its interval."""
    repeats = results.repeats
    places = repeats["images"].map({images: at for at, images in enumerate(study.images)})
    figure, (panel,) = new_figure(2.8, width=4.5)
    for aside, (name, title) in zip((-0.24, 0.0, 0.24), NAMES.items(), strict=True):
        scores, look = 100 * repeats[f"{name}_top1"].astype(float), LOOKS[name]
        panel.plot(places + aside - 0.06, scores, ".", color=look.colour, alpha=0.35, ms=4)
        found = [mean_interval(values.tolist()) for _, values in scores.groupby(places)]
        panel.errorbar(
            np.arange(len(found)) + aside + 0.04,
            [each.mean for each in found],
            np.nan_to_num([each.high - each.mean for each in found]),
            fmt=look.marker,
            color=look.colour,
            capsize=3,
            label=title,
        )
    panel.set_xticks(range(len(study.images)), [str(n) for n in study.images])
    panel.set(xlabel="labelled images of a participant", ylabel=ACCURACY)
    panel.legend(loc="lower right")
    return figure


def epsilon(results: Results, study: LabellingStudy) -> Figure:
    """Draw accuracy against the epsilon of one query, with the accuracy before it as a line."""
    figure, panels = new_figure(2.8, columns=len(study.images), share_y=True)
    table = epsilon_table(results, study)
    for panel, images in zip(panels, study.images, strict=True):
        panel.set_title(f"{images} images")
        rows = table[table["images"] == images]
        if rows["init_top1_mean"].isna().all():
            explain_empty(panel, "no finished repeat")
        else:
            _curves(panel, rows)
    panels[0].set_ylabel(ACCURACY)
    figure.supxlabel("ε of one query, by the formula", fontsize=9)
    return figure


def _curves(panel: Axes, rows: pd.DataFrame) -> None:
    finite = [value for value in rows["epsilon_query"] if math.isfinite(value)]
    last = NO_NOISE * max(finite, default=1.0)
    at = [value if math.isfinite(value) else last for value in rows["epsilon_query"]]
    before = 100 * rows["init_top1_mean"].iloc[0]
    panel.axhline(before, color=LOOKS["init"].colour, ls=":", label=NAMES["init"])
    for name in ("capc", "iel"):
        look = LOOKS[name]
        mean, low, high = (
            100 * rows[f"{name}_top1_{end}"] for end in ("mean", "ci_low", "ci_high")
        )
        panel.fill_between(at, low, high, color=look.colour, alpha=0.2, lw=0)
        panel.plot(at, mean, look.marker + "-", color=look.colour, label=NAMES[name])
    panel.set_xscale("log")
    panel.set_xticks(
        at, [f"{v:g}" if math.isfinite(v) else "no noise" for v in rows["epsilon_query"]]
    )
    panel.minorticks_off()
    panel.tick_params(axis="x", labelrotation=45)
    panel.legend(loc="lower right")
