"""Carry out one repeat with every number of images, from prepared data to finished folders."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from cemlib.config.labelling import LabellingStudy
from cemlib.data.prepared import Prepared, load
from cemlib.labelling.accounting import noise_std
from cemlib.labelling.experiment import INIT, Outcome, carry_out
from cemlib.labelling.loss import answered
from cemlib.labelling.participants import METHODS, TENTHS, Found, Participants
from cemlib.numerics.divergence import DivergedError
from cemlib.numerics.precision import set_up
from cemlib.records.checkpoint import Checkpoint, pack, unpack
from cemlib.records.files import write_bytes, write_json, write_jsonl
from cemlib.records.progress import progress
from cemlib.records.seal import write_sealed
from cemlib.study.job import Job

SHOWN = ("init_top1", "capc_top1", "iel_top1")
TOP1 = [f"{name}_top1" for name in (INIT, *METHODS)]
SCORES = [*TOP1, "label_accuracy", "refused", "mean_weight"]
FAILED: dict[str, Any] = {**dict.fromkeys(SCORES), "participants": [], "sweep": []}


class Stages:
    """The results of a job's stages, kept in its checkpoint so that no stage is computed twice."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._checkpoint = checkpoint
        self._found, self._seconds = checkpoint.load() or ({}, {})

    def __call__(self, name: str, work: Callable[[], Found]) -> Found:
        """Return the result of a stage; do its work only if no earlier process has finished it."""
        found = unpack(name, self._found)
        if not found:
            start = time.perf_counter()
            try:
                found = work()
            finally:
                self._seconds[name] = time.perf_counter() - start
            self._found |= pack(name, found)
            self._checkpoint.save(self._found, self._seconds)
        return found

    def seconds(self, images: int) -> float:
        """Return the seconds of all stages with a number of images, of earlier processes too."""
        parts = (s for name, s in self._seconds.items() if name.startswith(f"{images}/"))
        return float(sum(parts))


def run(job: Job[LabellingStudy]) -> Iterator[Path]:
    """Carry out one repeat: write its folders, and yield the path of each one's record.

    If a training diverges, that number of images counts as finished, too: its status is `failed`.

    Raises:
        FileError: if the prepared data are missing or damaged.
        ConfigError: if there are too few images, or the noise does not fit the masks.
    """
    study, repeat, place = job.plan.study, job.of["repeat"], job.plan.layout.data
    set_up(job.processor(), study.threads)
    participants = Participants(study, repeat, data := load(place))
    checkpoint = Checkpoint(job.checkpoint(data.sha256))
    stages = Stages(checkpoint)
    report = progress(f"pctc repeat {repeat}", len(study.images), unit="part")
    for done, images in enumerate(study.images, start=1):
        path = job.plan.layout.repeat(images, repeat).metrics
        path.unlink(missing_ok=True)  # of an older repeat of this number
        try:
            found: Outcome | str = carry_out(participants, images, stages)
        except DivergedError as error:
            found = str(error)
        metrics = _write(job, data, images, found, stages.seconds(images))
        report(done, {"images": images} | {name: metrics[name] for name in SHOWN})
        yield path
    checkpoint.remove()


def _write(
    job: Job[LabellingStudy],
    data: Prepared,
    images: int,
    found: Outcome | str,
    seconds: float,
) -> dict[str, Any]:
    """Write the files of a repeat, its metrics last; `found` is the outcome, or why it diverged."""
    outcome, reason = (None, found) if isinstance(found, str) else (found, None)
    repeat = job.of["repeat"]
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
        "data_sha256": data.sha256,
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
