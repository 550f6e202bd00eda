"""How an experiment opens in MLflow: its description, and ready views that the description links.

A view is what MLflow's own *Share* button stores with an experiment: filter, order and columns of
the table of runs, or the charts beside it.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

VIEW = "mlflow.sharedViewState."  # tag: the view of that name
NOTE = "mlflow.note.content"
WHO = ("defence", "seed", "surrogate", "status")
HOW = ("defence", "seed", "attack", "knowledge")
ADDRESS = "#/experiments/{id}/runs?viewStateShareKey={view}"
DESCRIPTION = """\
{links}

Tables and figures of the whole study are in the run `report`. One run per defence and seed; the \
attacks on it are nested below (the + beside its name).

* Metrics without a prefix are final scores on the test images, `curve/...` the course over epochs.
  A higher `mse`, and a lower `ssim`, `psnr`, `recon_top1` and `leakage_nats`, is better for the
  defender. An attack also carries `top1` and `leakage_nats` of the classifier that it attacked.
* Means over seeds: in the chart view, *Group by* the tag `defence`.
* Filters: `tags.kind = 'run'`, `tags.attack = 'decoder' AND tags.knowledge = 'train_data'`,
  `tags.defence = 'clustering' AND metrics.mse > 0`, `tags.status = 'failed'`.
"""
LINKS = {
    "runs": "Runs: accuracy and leakage bound",
    "attacks": "Attacks: strongest first",
    "charts": "Charts of the runs: learning curves",
    "tradeoff": "Charts of the attacks: accuracy against error, and reconstructions",
    "failed": "What failed, and why",
}
CHARTS = ("charts", "tradeoff")
CURVES = ("train_ce", "val_top1", "surrogate", "val_leakage_nats")


def views() -> dict[str, str]:
    """Tags of an experiment that hold its views."""
    found: dict[str, dict[str, Any]] = {
        "runs": _table("run", WHO, ("top1", "leakage_nats", "wall_seconds"), "top1"),
        "attacks": _table(
            "attack", HOW, ("mse", "ssim", "psnr", "recon_top1", "top1"), "mse", ascending=True
        ),
        "charts": _charts("run", "top1", [_line(name) for name in CURVES]),
        "tradeoff": _charts("attack", "mse", [_scatter("mse"), _scatter("ssim"), _pictures()]),
        "failed": {
            "searchFilter": "tags.status = 'failed'",
            "selectedColumns": [_tag(name) for name in (*HOW, "reason")],
        },
    }
    return {f"{VIEW}{name}": json.dumps(view) for name, view in found.items()}


def description(experiment_id: str) -> str:
    """The experiment's description in Markdown, with links to its views."""
    links = [
        f"[{text}]({ADDRESS.format(id=experiment_id, view=name)}"
        f"{'&compareRunsMode=CHART' if name in CHARTS else ''})"
        for name, text in LINKS.items()
    ]
    return DESCRIPTION.format(links=" · ".join(links))


def _table(
    kind: str, tags: Sequence[str], metrics: Sequence[str], order: str, *, ascending: bool = False
) -> dict[str, Any]:
    columns = [*map(_tag, tags), *map(_metric, metrics)]
    return {
        "searchFilter": f"tags.kind = '{kind}'",
        "orderByKey": _metric(order),
        "orderByAsc": ascending,
        "selectedColumns": columns,
    }


def _charts(kind: str, order: str, charts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Charts above those that MLflow makes of every metric.

    Ordered by a metric: by the time, attacks would hide below their runs, and be in no chart.
    """
    section = {"uuid": "cemlib", "name": "Study", "display": True, "isReordered": False}
    placed = [
        {"uuid": f"cemlib-{number}", "metricSectionId": "cemlib", "deleted": False, **chart}
        for number, chart in enumerate(charts)
    ]
    return {
        "searchFilter": f"tags.kind = '{kind}'",
        "orderByKey": _metric(order),
        "orderByAsc": True,
        "isAccordionReordered": True,
        "compareRunCharts": placed,
        "compareRunSections": [{**section, "deleted": False, "isGenerated": False}],
        "selectedColumns": [_tag(name) for name in HOW],
        "runsHiddenMode": "FIRST_20_RUNS",
    }


def _line(name: str) -> dict[str, Any]:
    return {
        "type": "LINE",
        "isGenerated": False,
        "metricKey": f"curve/{name}",
        "selectedMetricKeys": [f"curve/{name}"],
        "xAxisKey": "step",
        "lineSmoothness": 0,
        "scaleType": "linear",
        "xAxisScaleType": "linear",
        "runsCountToCompare": 100,
    }


def _scatter(score: str) -> dict[str, Any]:
    return {
        "type": "SCATTER",
        "isGenerated": False,
        "xaxis": {"key": score, "type": "METRIC"},
        "yaxis": {"key": "top1", "type": "METRIC"},
        "runsCountToCompare": 1000,
    }


def _pictures() -> dict[str, Any]:
    return {
        "type": "IMAGE",
        "isGenerated": False,
        "imageKeys": ["pictures/reconstructions"],
        "step": 0,
        "runsCountToCompare": 100,
    }


def _tag(name: str) -> str:
    return f"tags.`{name}`"


def _metric(name: str) -> str:
    return f"metrics.`{name}`"
