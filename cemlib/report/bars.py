"""Draw a row per defence: accuracy and worst-case error, and the differences from the reference."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cemlib.records.scores import SCORES, TESTED, marked
from cemlib.report.cells import with_failures
from cemlib.report.claims import is_shown
from cemlib.report.statistics import mean_interval
from cemlib.report.style import Look, explain_empty, looks, new_figure, readable, significant
from cemlib.report.tables import at_chance, present, records
from cemlib.report.worst_case import CEILING, unconverged, worst_case

_CLEAR: Any = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 0.4}


def overview(runs: pd.DataFrame, attacks: pd.DataFrame, defences: Sequence[str]) -> Figure:
    """Draw test accuracy, and for each attacker knowledge the worst-case MSE, as bars from zero."""
    chance = set(runs.loc[at_chance(runs), "defence"])
    names = {
        name: f"{readable(name)}{' (chance)' if name in chance else ''}"
        for name in present(runs, defences)
    }
    knowledges = attacks["knowledge"].unique()
    strongest, ceilings = worst_case(attacks), attacks[attacks["attack"] == CEILING]
    figure, (first, *others) = new_figure(1.1 + 0.3 * len(names), 1 + len(knowledges), share_y=True)
    _bars(first, names, runs, "top1", "{:.1f}".format)
    first.set(xlabel="test accuracy [%]", xlim=(0, 135), xticks=range(0, 101, 25))
    for panel, knowledge in zip(others, knowledges, strict=True):
        rows = strongest[strongest["knowledge"] == knowledge]
        _bars(panel, names, rows, "mse", significant)
        panel.set_xlabel(f"{SCORES['mse'].subject},\nattacker has {readable(knowledge)}")
    reach = max(panel.dataLim.x1 for panel in others)
    for panel, knowledge in zip(others, knowledges, strict=True):
        panel.set_xlim(0, 1.5 * reach if reach > 0 else 1)
        panel.locator_params(axis="x", nbins=4)
        ceiling = ceilings.loc[ceilings["knowledge"] == knowledge, "mse"].mean()
        if math.isfinite(ceiling):  # the line may lie beyond the bars
            panel.axvline(ceiling, color="black", linestyle=(0, (4, 3)), linewidth=1)
            panel.set_title(f"{readable(CEILING)}: {significant(ceiling)}", fontsize=7)
    return figure


def forest(compared: pd.DataFrame, defences: Sequence[str], knowledge: str) -> Figure:
    """Draw paired differences of worst-case MSE and accuracy, with 95 % intervals over seeds."""
    styles = looks(defences)
    errors = compared[(compared["metric"] == TESTED) & (compared["knowledge"] == knowledge)]
    accuracies = compared[compared["metric"] == "top1"]
    figure, panels = new_figure(1.2 + 0.32 * max(len(errors), 2), columns=2)
    for panel, rows in zip(panels, (errors, accuracies), strict=True):
        _differences(panel, rows, styles)
    panels[1].tick_params(labelleft=False)
    title = f"attacker has {readable(knowledge)}"
    if len(errors):
        reference = readable(errors["reference"].iloc[0])
        shown = "filled: MSE difference shown after Holm's correction (accuracy: not tested)"
        title = f"difference from {reference}, {title}\n{shown}"
    figure.suptitle(title, fontsize=9)
    return figure


def _bars(
    panel: Axes,
    names: Mapping[str, str],
    rows: pd.DataFrame,
    score: str,
    written: Callable[[float], str],
) -> None:
    """Draw a bar for each defence, labelled by `names`; hollow if an attack had not converged."""
    late = set(rows.loc[unconverged(rows, score), "defence"])
    for place, (name, look) in enumerate(looks([*names]).items()):
        values = SCORES[score].scale * rows.loc[rows["defence"] == name, score]
        found = mean_interval(values.tolist())
        width = found.mean if math.isfinite(found.mean) else 0.0
        colour, hatch = ("white", "") if name in late else (look.colour, look.hatch)
        panel.barh(place, width, height=0.62, color=colour, alpha=0.45, hatch=hatch, ec="black")
        panel.errorbar(found.mean, place, xerr=found.arms, color="black", capsize=3, linewidth=1.2)
        number = marked(written(found.mean), name in late)
        most = SCORES[score].scale * SCORES[score].bounds[1]
        edge = min(most, max(v for v in (found.mean, found.high, 0.0) if math.isfinite(v)))
        panel.annotate(
            with_failures(number, len(values) - found.n, len(values)),
            (edge, place),  # matplotlib leaves out what stands outside of the axes
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize=7,
            bbox=_CLEAR,
        )
    _name_rows(panel, [*names.values()])


def _differences(panel: Axes, rows: pd.DataFrame, styles: dict[str, Look]) -> None:
    if rows.empty:
        explain_empty(panel, "one defence: nothing to compare it with")
        return
    score = SCORES[rows["metric"].iloc[0]]
    panel.axvline(0, color="black", linewidth=0.8, linestyle=(0, (4, 3)))
    for place, row in enumerate(records(rows)):
        _row(panel, place, row, score.scale, styles[row["defence"]])
    names = [marked(readable(row["defence"]), row["unconverged"] != "") for row in records(rows)]
    _name_rows(panel, names)
    panel.locator_params(axis="x", nbins=4)  # the panels and their labels share the width
    panel.set_xlabel(f"{score.difference}\n({score.side})")


def _row(panel: Axes, place: int, row: dict[str, Any], scale: int, look: Look) -> None:
    mean, low, high = (scale * row[key] for key in ("difference", "ci_low", "ci_high"))
    if not math.isfinite(mean):
        panel.annotate("not compared", (0, place), ha="center", va="bottom", fontsize=6)
        return
    panel.errorbar(
        mean,
        place,
        xerr=[[mean - low], [high - mean]],
        fmt=look.marker,
        color=look.colour,
        mfc=look.colour if is_shown(row) else "white",
        capsize=3,
        linewidth=1.2,
    )


def _name_rows(panel: Axes, names: Sequence[str]) -> None:
    panel.set_yticks(range(len(names)), names)
    panel.set_ylim(len(names) - 0.5, -0.5)
    panel.grid(axis="y", visible=False)
