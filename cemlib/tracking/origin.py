"""The inputs of a result: the attacked run, and the prepared images."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cemlib.records.layout import Layout
from cemlib.records.seal import FILES, read_sealed

WEIGHTS = "model.safetensors"
OF_THE_VICTIM = ("top1", "leakage_nats")  # also logged with an attack, for charts of both
CONTEXTS = {"run": "training", "attack": "attack"}


@dataclass(frozen=True)
class Dataset:
    """The images of a result, as MLflow lists them among its inputs."""

    name: str
    digest: str
    source: str  # JSON of their origin and preparation
    profile: str  # JSON of their counts
    context: str


def victim(metrics: Path, attack: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metrics of the attacked run; empty if it is gone or has other weights now.

    Raises:
        FileError: if the run's metrics are damaged.
    """
    path = metrics.parents[2] / metrics.name
    found = read_sealed(path) if path.is_file() else {}
    same = found.get(FILES, {}).get(WEIGHTS) == attack.get("model_sha256")
    return found if same else {}


def data_name(config: Mapping[str, Any], experiment: str) -> str:
    """Return the source of the images as their name, or the experiment for a user's own folder."""
    source = str(config.get("data", {}).get("source", "unknown"))
    return experiment if source == "folder" else source


def dataset(root: Path, run: Mapping[str, Any], kind: str) -> Dataset | None:
    """Return the prepared images that a run, or an attack on it, used; None if the run is gone.

    Raises:
        FileError: if the description of the prepared images is damaged.
    """
    checksum = run.get("data_sha256")
    if checksum is None:
        return None
    path = Layout(root).prepared_facts
    facts = read_sealed(path) if path.is_file() else {}
    if facts.get("sha256") != checksum:  # prepared anew since, with other settings
        facts = {}
    counts = facts.get("counts", {})
    rows = {"num_rows": counts["train"]} if "train" in counts else {}
    profile = rows | {key: facts[key] for key in ("counts", "image_shape", "classes") if facts}
    return Dataset(
        name=data_name(run["config"], str(run["experiment"])),
        digest=str(checksum)[:16],
        source=json.dumps({"sha256": checksum, **facts.get("source", {})}),
        profile=json.dumps(profile),
        context=CONTEXTS[kind],
    )
