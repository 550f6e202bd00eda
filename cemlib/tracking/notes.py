"""Descriptions of MLflow runs in Markdown: what a reader sees first on a run's page."""

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

# Of MLflow: a description is a tag, and a longer tag is refused.
LONGEST = 8000
KNOWLEDGE = {
    "train_data": "The attacker learned from the images that the classifier was trained on.",
    "public_data": "The attacker learned from other images of the same kind.",
}
EXPERIMENT = """\
Tables and figures are in the run `report`.

One run per defence and seed; the attacks on it are nested below (the + beside its name).

* Metrics without a prefix are final scores on the test images, `curve/...` the course over epochs.
  A higher `mse`, and a lower `ssim`, `psnr` and `leakage_nats`, is better for the defender.
* Means over seeds: in the chart view, *Group by* the tag `defence`.
* Filters: `tags.kind = 'run'`, `tags.attack = 'decoder' AND tags.knowledge = 'train_data'`,
  `tags.status = 'failed'`.
"""
# The address is relative to MLflow's own page, wherever its server stands.
PICTURE = "![{title}](get-artifact?path={path}&run_uuid={{run_id}})"


def describe(metrics: Mapping[str, Any], names: Mapping[str, str], folder: str) -> str:
    """Describe a finished run or attack; `{run_id}` in it stands for the id of its MLflow run."""
    place = f"Files: `{folder}` in the experiment's result folder."
    if metrics["status"] != "ok":
        return f"**Failed:** {metrics['reason']}\n\n{place}"
    if names["kind"] == "attack":
        strip = PICTURE.format(title="reconstructions", path="reconstructions.png")
        return "\n\n".join((strip, _attack_story(metrics, names), place))
    return f"{_run_story(metrics)}\n\n{place}"


def describe_report(experiment: str, files: Mapping[str, bytes]) -> str:
    """Describe the report: its summary table and its figures as far as they fit."""
    parts = [f"Tables and figures of the study `{experiment}`; all of them are under *Artifacts*."]
    for name, content in files.items():
        path = PurePosixPath(name)
        if path.name == "summary.md":
            parts.insert(1, content.decode())
        if path.suffix == ".png":
            parts.append(PICTURE.format(title=path.stem, path=name))
    return _fitting(parts)


def _run_story(metrics: Mapping[str, Any]) -> str:
    bound = metrics["leakage_nats"]
    amount = "without noise, any amount" if bound is None else f"at most {bound:.2f} nats"
    return (
        f"Test accuracy **{100 * metrics['top1']:.2f} %**. What is released tells {amount} about"
        f" which test image was shown. {_cost(metrics)}\n\nThe attacks on this run are nested below"
        " it in the list of runs."
    )


def _attack_story(metrics: Mapping[str, Any], names: Mapping[str, str]) -> str:
    scores = ", ".join(
        f"{title} **{metrics[key]:.4g}**{unit}"
        for key, title, unit in (("mse", "MSE", ""), ("ssim", "SSIM", ""), ("psnr", "PSNR", " dB"))
        if metrics[key] is not None
    )
    return (
        f"Originals above, reconstructions by `{names['attack']}` from `{names['defence']}` seed"
        f" {names['seed']} below: {scores} over {metrics['n_images']} test images (a higher MSE is"
        " more private)."
        f" {KNOWLEDGE.get(names['knowledge'], '')} {_cost(metrics)}"
    )


def _cost(metrics: Mapping[str, Any]) -> str:
    source = metrics["provenance"]
    return f"{metrics['wall_seconds']:.0f} s on {source['device']}."


def _fitting(parts: Sequence[str]) -> str:
    """As many parts as a description may hold, with room for the ids that replace `{run_id}`."""
    text = ""
    for part in parts:
        longer = f"{text}\n\n{part}".strip()
        if len(longer) + 32 * longer.count("{run_id}") <= LONGEST:
            text = longer
    return text
