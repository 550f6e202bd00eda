"""Descriptions of MLflow runs in Markdown: what a reader sees first on a run's page."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from cemlib.records.scores import (
    ATTACK_SCORES,
    IDENTIFICATION,
    MARK,
    NOTE,
    RUN_SCORES,
    SCORES,
    marked,
)

# Of MLflow: a description is a tag, and a longer tag is refused.
LONGEST = 8000
KNOWLEDGE = {
    "train_data": "The attacker learned from the images that the classifier was trained on.",
    "public_data": "The attacker learned from other images of the same kind.",
}


def _rows(names: Sequence[str]) -> list[tuple[str, str, int, str]]:
    """Return key, title, factor and unit of some scores."""
    found = [(name, SCORES[name]) for name in names]
    return [(n, s.arrowed, s.scale, f" {s.unit}" if s.unit else "") for n, s in found]


# Key of metrics.json, title, factor, unit.
RUN_ROWS = (
    ("init_top1", "accuracy before asking ↑", 100, " %"),
    ("capc_top1", "accuracy after, CaPC-style ↑", 100, " %"),
    ("iel_top1", "accuracy after, IEL ↑", 100, " %"),
    *_rows(RUN_SCORES),
)
ATTACK_ROWS = (
    *_rows((*ATTACK_SCORES, IDENTIFICATION)),
    ("n_images", "images attacked", 1, ""),
)
# Of an experiment. The link is a filter and the chart view: a page that knows them no longer shows
# every run.
STUDY = """\
[Charts of all trainings](#/experiments/{id}/runs?searchFilter=tags.kind%20%3D%20%27run%27\
&compareRunsMode=CHART). The main result is in the description of the run `report`. One run per \
defence and seed; the attacks on it are nested below (the + beside its name).

* Columns to tick in the list: `top1` (accuracy), and below `worst_case/train_data` `mse`, `ssim`
  and `identified`: the strongest attack on the training by an attacker who has its images.
* A higher `mse`, and a lower `ssim`, `identified` and `leakage_nats`, is better for the defender.
  Metrics `curve/...` are the course over epochs, others final scores on the test images.
* Means over seeds: in the charts, *Group by* the tag `defence`.
* Filters: `tags.kind = 'run'`, `tags.attack = 'decoder' AND tags.knowledge = 'train_data'`,
  `tags.defence = 'clustering' AND metrics.mse > 0`, `tags.status = 'failed'`.
"""


def describe(
    metrics: Mapping[str, Any], names: Mapping[str, str], root: Path, run: Mapping[str, Any]
) -> str:
    """Describe a finished run or attack.

    Args:
        metrics: Content of its `metrics.json`.
        names: What its folder says it is.
        root: Folder of the experiment.
        run: Metrics of the run, of the attacked one for an attack; empty where that is unknown.
    """
    again = _again(metrics, names, root)
    if metrics["status"] != "ok":
        return f"**Failed:** {metrics['reason']}\n\nNo score of it is a number.\n\n{again}"
    if names["kind"] == "attack":
        table = _table(metrics, run)
        note = f"\n\n{NOTE}" if MARK in table else ""
        return "\n\n".join((table + note, _attack_story(names), again))
    return "\n\n".join((_table({}, metrics), _run_story(metrics), again))


def describe_report(experiment: str, files: Mapping[str, bytes]) -> str:
    """Describe the report: tables of the worst case, then what they mean and show, if that fits."""
    text = f"Tables and figures of the study `{experiment}`; all of them are under *Artifacts*."
    texts = {
        PurePosixPath(name).name: content.decode()
        for name, content in files.items()
        if name.endswith(".md")
    }
    head, *tables = texts.get("summary.md", "").split("\n## ")
    worst = [f"#### {table}" for table in tables if table.startswith("Worst case")]
    for part in (*worst, head, texts.get("claims.md", "")):
        if part and len(text) + len(part) + 2 <= LONGEST:
            text += f"\n\n{part.strip()}"
    return text


def _run_story(metrics: Mapping[str, Any]) -> str:
    if "story" in metrics:  # of another system, which tells what its run is
        return str(metrics["story"])
    source = metrics["provenance"]
    return (
        f"Trained in {metrics['wall_seconds']:.0f} s on {source['device']}. Curves are under *Model"
        " metrics*. The attacks on this run are nested below it in the list of runs; together:"
        f" filter by `tags.defence = '{metrics['defence']}' AND tags.seed = '{metrics['seed']}'`."
    )


def _attack_story(names: Mapping[str, str]) -> str:
    return (
        f"`{names['attack']}` against `{names['defence']}` seed {names['seed']}; its"
        f" reconstructions are under *Artifacts*. {KNOWLEDGE.get(names['knowledge'], '')}"
    )


def _table(attack: Mapping[str, Any], run: Mapping[str, Any]) -> str:
    """Return the main scores, with the side that is better for the defender."""
    found = [
        f"| {title} | {marked(_number(source.get(key), scale, unit), _is_late(source, key))} |"
        for source, rows in ((attack, ATTACK_ROWS), (run, RUN_ROWS))
        for key, title, scale, unit in rows
        if key in source
    ]
    return "\n".join(["| score | value |", "| --- | ---: |", *found])


def _is_late(metrics: Mapping[str, Any], key: str) -> bool:
    """Return whether this is a score of an attack that had not converged."""
    return metrics.get("converged") is False and key != "n_images"


def _number(value: float | None, scale: float, unit: str) -> str:
    return "unbounded" if value is None else f"{scale * value:.4g}{unit}"


def _again(metrics: Mapping[str, Any], names: Mapping[str, str], root: Path) -> str:
    """Return how to make the result again: the commit, the command, and where its files are."""
    chosen = f"--defence {names['defence']} --seed {names['seed']}"
    chosen += f" --attack {names['attack']}" if names["kind"] == "attack" else ""
    command = "attack" if names["kind"] == "attack" else "train"
    place = shlex.quote(str(root / "config.json"))
    again = metrics.get("command") or f"cemlib {command} --config {place} {chosen}"
    source = metrics["provenance"]
    commit = f"commit `{source['commit'][:12]}`" if source["commit"] != "unknown" else "no commit"
    changed = ", with uncommitted changes" if source["dirty"] else ""
    return f"Again, from {commit}{changed}:\n\n```\n{again}\n```"
