"""Write the files of one repeat with one number of images: scores, answers, provenance."""

from typing import Any

import torch
from torch import Tensor

from cemlib.config.labelling import LabellingStudy
from cemlib.data.prepared import checksum
from cemlib.labelling.accounting import noise_std
from cemlib.labelling.experiment import INIT, Outcome
from cemlib.labelling.loss import answered
from cemlib.labelling.participants import METHODS, TENTHS
from cemlib.records.files import write_bytes, write_json, write_jsonl
from cemlib.records.seal import write_sealed
from cemlib.study.job import Job

TOP1 = [f"{name}_top1" for name in (INIT, *METHODS)]
SCORES = [*TOP1, "label_accuracy", "refused", "mean_weight"]
FAILED: dict[str, Any] = {**dict.fromkeys(SCORES), "participants": [], "sweep": []}
STORY = (
    "{} participants with {} labelled images each voted on {} images, encrypted; each then trained"
    " again on the noisy answers. Accuracies are means over the participants as the requester."
)


def write_repeat(
    job: Job[LabellingStudy],
    images: int,
    outcome: Outcome | None,
    reason: str | None,
    seconds: float,
) -> dict[str, Any]:
    """Write the files of a finished repeat, its metrics last, and return the metrics.

    If a training diverged, `outcome` is None and `reason` says why.
    """
    study, repeat = job.plan.study, job.of["repeat"]
    folder = job.plan.layout.repeat(images, repeat)
    write_jsonl(folder.history, _history(outcome) if outcome else [])
    write_bytes(folder.per_image, _per_image(outcome) if outcome else b"")
    write_json(folder.config, job.settings | {"images": images, "seed": repeat})
    metrics = {
        "kind": "run",
        "defence": f"images{images}",
        "seed": repeat,
        "images": images,
        **(_found(outcome) if outcome else FAILED),
        "command": job.command,
        "story": STORY.format(study.participants, images, study.queries),
        "data_sha256": checksum(job.plan.layout.data),
        "wall_seconds": seconds,
        **job.record(reason),
    }
    write_sealed(folder.metrics, metrics, [f for f in folder.files() if f != folder.metrics])
    return metrics


def _found(outcome: Outcome) -> dict[str, Any]:
    study = outcome.participants.study
    return {
        **_scores(outcome, study.privacy.epsilon),
        "participants": _participants(outcome),
        "sweep": [
            {"epsilon": epsilon, "sigma": noise_std(study, epsilon), **_scores(outcome, epsilon)}
            for epsilon in study.epsilons()
        ],
    }


def _scores(outcome: Outcome, epsilon: float | None) -> dict[str, float | None]:
    """Return mean accuracies, shares of correct and of refused answers, and the mean weight."""
    accuracy = outcome.by_method("accuracy", epsilon)
    counts = outcome.answers[epsilon]
    kept = answered(counts)
    right = counts.argmax(dim=1)[kept] == _truth(outcome)[kept]
    some = len(right) > 0
    weights = outcome.participants.certainty(counts[kept], epsilon)
    return {
        **{f"{name}_top1": float(row.mean()) for name, row in accuracy.items()},
        "label_accuracy": float(right.double().mean()) if some else None,
        "refused": float((~kept).double().mean()),
        "mean_weight": float(weights.mean()) if some else None,
    }


def _participants(outcome: Outcome) -> list[dict[str, Any]]:
    """Return network and accuracies of each participant as the requester."""
    participants = outcome.participants
    accuracy = outcome.by_method("accuracy", participants.study.privacy.epsilon)
    networks = map(participants.network, range(participants.study.participants))
    return [
        {"network": f"{network.kind}{network.width or ''}"}
        | {name: float(row[who]) for name, row in accuracy.items()}
        for who, network in enumerate(networks)
    ]


def _truth(outcome: Outcome) -> Tensor:
    """Return the true labels (Q,) of the queries, used for scores only: no participant has them."""
    participants = outcome.participants
    return participants.data.train.labels[participants.queries]


def _history(outcome: Outcome) -> list[dict[str, Any]]:
    """Return the mean losses over the participants for each tenth of the training."""
    losses = outcome.by_method("losses", outcome.participants.study.privacy.epsilon)
    columns = {f"{name}_loss": rows.mean(0).tolist() for name, rows in losses.items()}
    return [
        {"epoch": tenth + 1} | {name: column[tenth] for name, column in columns.items()}
        for tenth in range(TENTHS)
    ]


def _per_image(outcome: Outcome) -> bytes:
    """Return a Parquet table with a row per query: counts, answer, weight, and the true label."""
    import pandas as pd

    epsilon = outcome.participants.study.privacy.epsilon
    counts = outcome.answers[epsilon]
    kept = answered(counts)
    weights = torch.zeros(len(counts), dtype=counts.dtype)
    weights[kept] = outcome.participants.certainty(counts[kept], epsilon)
    columns = {
        "index": outcome.participants.queries,
        "label": _truth(outcome),
        "answered": kept,
        "answer": counts.argmax(dim=1),
        "weight": weights,
        **{f"count_{k}": column for k, column in enumerate(counts.T)},
    }
    frame = pd.DataFrame({name: column.numpy() for name, column in columns.items()})
    return frame.to_parquet(index=False)
