"""Train one variant with one seed: rounds, checkpoints, the record."""

import time
from pathlib import Path
from typing import Any

from cemlib.config.errors import ConfigError
from cemlib.federated.job import read_data, read_pseudo, run_of, variant_of, write_record
from cemlib.federated.private import epsilon
from cemlib.federated.rounds import Federation, score
from cemlib.records.checkpoint import Checkpoint, Resumed
from cemlib.records.files import save_tensors, write_json, write_jsonl
from cemlib.records.seal import FILES, read_sealed
from cemlib.study.federated import FederatedJob

SHOWN = ("train_loss", "val_top1")
SCORES = ("top1", "loss", "val_top1", "val_loss", "epsilon")


def run(job: FederatedJob) -> list[Path]:
    """Train, write the run's folder, also if it diverges, and return the path of its record."""
    start, study, folder = time.perf_counter(), job.plan.study, run_of(job)
    data = read_data(job)
    _check_beta(job, len(data.classes))
    fault, generators = _generators(job)
    pseudo = read_pseudo(job, data) if generators and fault is None else None
    federation = Federation(study, variant_of(job), data, pseudo, job.of["seed"])
    origin = (data.sha256, job.processor().type, str(generators))
    # A round takes long, and its state is small.
    checkpoint = Checkpoint(job.checkpoint(*origin), interval=0.0)
    resumed = Resumed(federation, checkpoint, start)
    folder.metrics.unlink(missing_ok=True)
    with checkpoint.written_when_interrupted():
        reason = fault or resumed.finish(job.name, study.train.rounds, SHOWN, folder.history)
        ended = {"generators_sha256": generators, "wall_seconds": resumed.seconds}
        _write(job, federation, reason, ended)
    checkpoint.remove()
    return [folder.metrics]


def _check_beta(job: FederatedJob, classes: int) -> None:
    mask = variant_of(job).mask
    if mask is not None and mask.beta is not None and mask.beta > classes:
        raise ConfigError(
            f"variants.{job.of['variant']}.mask.beta: {mask.beta} outputs, the data have {classes}"
            " classes; lower it, or leave it out for all"
        )


def _generators(job: FederatedJob) -> tuple[str | None, str | None]:
    """Return why the clients' GANs failed, or None, and the checksum of the generators."""
    if variant_of(job).mixing is None:
        return None, None
    folder = job.plan.layout.gans(job.of["seed"])
    record = read_sealed(folder.metrics, ("status", "reason", FILES))
    failed = record["status"] != "ok"
    fault = f"the clients' GANs failed: {record['reason']}" if failed else None
    return fault, record[FILES][folder.generators.name]


def _write(
    job: FederatedJob, federation: Federation, reason: str | None, ended: dict[str, Any]
) -> None:
    """Write the run's files, its metrics last."""
    folder = run_of(job)
    write_jsonl(folder.history, federation.history)
    write_json(folder.config, job.settings | {"seed": job.of["seed"]})
    save_tensors(folder.model, federation.weights)
    found = {
        **(_scores(federation) if reason is None else dict.fromkeys(SCORES)),
        **_totals(federation.history),
        "epochs": len(federation.history),
        "parameters": {"network": sum(w.numel() for w in federation.weights.values())},
    }
    write_record(job, "run", federation.data, reason, found | ended)


def _scores(federation: Federation) -> dict[str, float | None]:
    test = score(federation.net, federation.weights, federation.data.test, "")
    val = score(federation.net, federation.weights, federation.data.val, "val_")
    return {**test, **val, "epsilon": _epsilon(federation)}


def _epsilon(federation: Federation) -> float | None:
    """Return the epsilon for the client with the fewest images, assuming that it is always asked.

    The accountant assumes independently sampled steps; here a shuffled order is cut into batches.
    It is None under mixing: the GANs, whose images are in every step, saw images without noise.
    """
    private, train = federation.variant.dp_sgd, federation.study.train
    if private is None or federation.variant.mixing is not None:
        return None
    rate = train.batch_size / min(map(len, federation.clients))
    return epsilon(private, rate, train.rounds * train.local_steps)


def _totals(rows: list[dict[str, Any]]) -> dict[str, float | None]:
    """Return sums over the rounds, and their mean time, which is None without any round."""
    counted = ("asked", "dropped", "excluded", "bytes_up", "bytes_down")
    found: dict[str, float | None] = {name: sum(row[name] for row in rows) for name in counted}
    found["round_seconds"] = sum(row["seconds"] for row in rows) / len(rows) if rows else None
    return found
