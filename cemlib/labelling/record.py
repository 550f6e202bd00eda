"""Write the files of one repeat with one number of images: scores, answers, provenance."""

from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import torch
from torch import Tensor

from cemlib.config.labelling import LabellingStudy
from cemlib.data.prepared import checksum
from cemlib.labelling.accounting import noise_std
from cemlib.labelling.experiment import COST, Experiment, variants
from cemlib.labelling.loss import answered, certainty, labels
from cemlib.labelling.participants import METHODS, TENTHS
from cemlib.records.files import write_bytes, write_json, write_jsonl
from cemlib.records.layout import RepeatFolder
from cemlib.records.seal import write_sealed
from cemlib.study.job import Job

INIT = "init"  # before anybody asked
QUALITY = ("label_accuracy", "refused", "mean_weight")
SCORES = tuple(f"{name}_top1" for name in (INIT, *METHODS)) + QUALITY

STORY = (
    "{} participants with {} labelled images each voted on {} images, encrypted; each then trained"
    " again on the noisy answers. Accuracies are means over the participants as the requester."
)


@dataclass(frozen=True)
class Record:
    """One repeat with one number of images."""

    job: Job[LabellingStudy]
    images: int

    @property
    def folder(self) -> RepeatFolder:
        """Return the folder of its files."""
        return self.job.plan.layout.repeat(self.images, self.job.of["repeat"])


def write_found(record: Record, experiment: Experiment, seconds: float) -> dict[str, Any]:
    """Write a finished repeat; its metrics come last, and are returned."""
    study = experiment.study
    answers = experiment.answers(study.privacy.epsilon)
    accuracy = _accuracies(experiment, study.privacy.epsilon)
    found = {
        **{f"{name}_top1": float(row.mean()) for name, row in accuracy.items()},
        **_quality(experiment, answers["counts"]),
        "participants": _participants(experiment, accuracy),
        "sweep": [_swept(experiment, epsilon) for epsilon in study.epsilons()],
        "encryption": dict(zip(COST, answers["cost"].tolist(), strict=True)),
    }
    write_jsonl(record.folder.history, _history(experiment))
    _write_per_image(record.folder, experiment, answers["counts"])
    return _write(record, None, found, seconds)


def write_failed(record: Record, reason: str, seconds: float) -> dict[str, Any]:
    """Write a repeat in which a training diverged: without scores."""
    write_jsonl(record.folder.history, [])
    write_bytes(record.folder.per_image, b"")
    nothing: dict[str, Any] = {**dict.fromkeys(SCORES), "participants": [], "sweep": []}
    return _write(record, reason, nothing, seconds)


def _write(
    record: Record, reason: str | None, found: Mapping[str, Any], seconds: float
) -> dict[str, Any]:
    job, images, folder = record.job, record.images, record.folder
    study, repeat = job.plan.study, job.of["repeat"]
    metrics = {
        "kind": "run",
        "defence": f"images{images}",
        "seed": repeat,
        "images": images,
        **found,
        "command": job.command,
        "story": STORY.format(study.participants, images, study.queries),
        "data_sha256": checksum(job.plan.layout.data),
        "wall_seconds": seconds,
        **job.record(reason),
    }
    write_json(folder.config, job.settings | {"images": images, "seed": repeat})
    write_sealed(folder.metrics, metrics, [f for f in folder.files() if f != folder.metrics])
    return metrics


def _accuracies(experiment: Experiment, epsilon: float | None) -> dict[str, Tensor]:
    """Return accuracy (N,) before anybody asked, and after it by each method at an epsilon."""
    rows = zip(variants(experiment.study), experiment.again()["accuracy"], strict=True)
    found = {INIT: experiment.first()["accuracy"]}
    for variant, row in rows:
        if variant.epsilon == epsilon:
            found[variant.method] = row
    return found


def _participants(experiment: Experiment, accuracy: Mapping[str, Tensor]) -> list[dict[str, Any]]:
    """Return network and accuracies of each participant as the requester."""
    networks = map(experiment.participants.network, range(experiment.study.participants))
    return [
        {"network": f"{network.kind}{network.width}"}
        | {name: float(row[who]) for name, row in accuracy.items()}
        for who, network in enumerate(networks)
    ]


def _swept(experiment: Experiment, epsilon: float | None) -> dict[str, Any]:
    accuracy = _accuracies(experiment, epsilon)
    means = {f"{name}_top1": float(row.mean()) for name, row in accuracy.items()}
    quality = _quality(experiment, experiment.answers(epsilon)["counts"])
    return {"epsilon": epsilon, "sigma": noise_std(experiment.study, epsilon)} | means | quality


def _quality(experiment: Experiment, counts: Tensor) -> dict[str, float | None]:
    """Return the shares of right answers and of refused queries, and the mean weight."""
    kept = answered(counts)
    right = labels(counts)[kept] == _truth(experiment)[kept]
    some = len(right) > 0
    return {
        "label_accuracy": float(right.double().mean()) if some else None,
        "refused": float((~kept).double().mean()),
        "mean_weight": float(certainty(counts[kept]).mean()) if some else None,
    }


def _truth(experiment: Experiment) -> Tensor:
    """Return the true labels (Q,) of the queries, for scores alone: no participant has them."""
    participants = experiment.participants
    return participants.data.train.labels[participants.queries]


def _history(experiment: Experiment) -> list[dict[str, Any]]:
    """Return mean losses over the participants, in tenths of the training."""
    epsilon = experiment.study.privacy.epsilon
    columns = {INIT: experiment.first()["losses"].mean(1)}
    for place, variant in enumerate(variants(experiment.study)):
        if variant.epsilon == epsilon:
            columns[variant.method] = experiment.again()["losses"][:, place].mean(1)
    return [
        {"epoch": tenth + 1} | {f"{name}_loss": float(c[tenth]) for name, c in columns.items()}
        for tenth in range(TENTHS)
    ]


def _write_per_image(folder: RepeatFolder, experiment: Experiment, counts: Tensor) -> None:
    """Write a row per query: the released counts, what follows from them, and what was right."""
    import pandas as pd

    kept = answered(counts)
    weights = torch.zeros(len(counts), dtype=counts.dtype)
    weights[kept] = certainty(counts[kept])
    columns = {
        "index": experiment.participants.queries,
        "label": _truth(experiment),
        "answered": kept,
        "answer": labels(counts),
        "weight": weights,
        **{f"count_{k}": column for k, column in enumerate(counts.T)},
    }
    content = BytesIO()
    frame = pd.DataFrame({name: column.numpy() for name, column in columns.items()})
    frame.to_parquet(content, index=False)
    write_bytes(folder.per_image, content.getvalue())
