"""Describe MLflow runs in Markdown, which a reader sees first on the page of a run."""

import math
import shlex
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from cemlib.records.scores import SCORES, UNBOUNDED, Score, marked
from cemlib.report.writer import Table, markdown_table

LONGEST = 8000  # characters of a description, which MLflow keeps as a tag
KNOWLEDGE = {
    "train_data": "The attacker learned from the images that the classifier was trained on.",
    "public_data": "The attacker learned from other images of the same kind.",
}
ATTACK_ROWS = {name: score for name, score in SCORES.items() if not score.of_runs}
RUN_ROWS = {
    "init_top1": Score("accuracy before asking", "higher", 2, "%", 100),
    "capc_top1": Score("accuracy after, CaPC-style", "higher", 2, "%", 100),
    "iel_top1": Score("accuracy after, IEL", "higher", 2, "%", 100),
    **{name: score for name, score in SCORES.items() if score.of_runs},
}
# The description of an experiment. Its link opens the charts of runs that match a filter; a version
# of MLflow without these parameters shows all runs.
STUDY = """\
[Charts of all trainings](#/experiments/{id}/runs?searchFilter=tags.kind%20%3D%20%27run%27\
&compareRunsMode=CHART). The main result is in the description of the run `report`. One run per \
defence and seed; the attacks on it are nested below (the + beside its name).

* Columns to tick in the list: `top1` (accuracy), and below `worst_case/train_data` `mse`, `ssim`
  and `identified`: the strongest attack on the training by an attacker who has its images.
* A higher `mse`, and a lower `ssim`, `identified` and `leakage_nats`, is better for the defender.
  Metrics `curve/...` are the course over epochs, others final scores on the test images.
* Means over seeds: in the charts, *Group by* the tag `defence`.
"""


def describe(
    metrics: Mapping[str, Any], names: Mapping[str, str], root: Path, run: Mapping[str, Any]
) -> str:
    """Describe a finished run or attack by its metrics, its `identity` and the run's metrics."""
    again = _again(metrics, names, root)
    if metrics["status"] != "ok":
        return f"**Failed:** {metrics['reason']}\n\nIt has no scores.\n\n{again}"
    if names["kind"] == "attack":
        return "\n\n".join((_table(metrics, run), _attack_story(names), again))
    return "\n\n".join((_table({}, metrics), _run_story(metrics), again))


def describe_report(experiment: str, files: Mapping[str, bytes]) -> str:
    """Describe the report: the worst case in tables, then what explains them, as far as it fits."""
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
    if "story" in metrics:  # from another system
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
    """Return the main scores, with arrows to the side that is better for the defender."""
    late = attack.get("converged") is False
    # Of a judge whose training failed there is no identification; other nulls are infinite.
    found = {n: v for n, v in attack.items() if v is not None or n in UNBOUNDED}
    rows = [(s.arrowed, cell(s, found[n], late)) for n, s in ATTACK_ROWS.items() if n in found]
    rows += [("images attacked", str(attack["n_images"]))] if "n_images" in attack else []
    rows += [(s.arrowed, cell(s, run[n], False)) for n, s in RUN_ROWS.items() if n in run]
    return markdown_table(Table("", ["score", "value"], rows))


def cell(score: Score, value: float | None, unconverged: bool) -> str:
    """Return a score with its unit, and the mark if it rests on an unconverged attack."""
    if value is None:
        return "unbounded"
    if math.isnan(value):  # as in the tables, if the training of the judge failed
        return "-"
    return marked(f"{score.scale * value:.4g} {score.unit}".strip(), unconverged)


def _again(metrics: Mapping[str, Any], names: Mapping[str, str], root: Path) -> str:
    """Return how to reproduce the result: the commit and the command."""
    chosen = f"--defence {names['defence']} --seed {names['seed']}"
    chosen += f" --attack {names['attack']}" if names["kind"] == "attack" else ""
    command = "attack" if names["kind"] == "attack" else "train"
    place = shlex.quote(str(root / "config.json"))
    again = metrics.get("command") or f"cemlib {command} --config {place} {chosen}"
    source = metrics["provenance"]
    commit = f"commit `{source['commit'][:12]}`" if source["commit"] != "unknown" else "no commit"
    changed = ", with uncommitted changes" if source["dirty"] else ""
    return f"To reproduce it, from {commit}{changed}:\n\n```\n{again}\n```"
