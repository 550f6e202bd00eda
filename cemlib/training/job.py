"""The training job: from prepared data to the folder of a finished run."""

import time
from pathlib import Path
from typing import Any

import torch

from cemlib.config.study import Study
from cemlib.data.prepared import Prepared, load
from cemlib.defences.pruning import client_cost
from cemlib.models import build
from cemlib.numerics.precision import resolve, set_up
from cemlib.records.checkpoint import Checkpoint, Resumed
from cemlib.records.files import save_tensors, write_json, write_jsonl
from cemlib.records.layout import RunFolder
from cemlib.records.seal import write_sealed
from cemlib.study.job import Job
from cemlib.training.selection import SCORES
from cemlib.training.trainer import SHOWN, Trainer, begin


def run(job: Job[Study]) -> list[Path]:
    """Train, deploy and score one run, write its folder, and return the path of its metrics.

    A run that diverges is finished too, with the status `failed` and null as scores.
    """
    start, study = time.perf_counter(), job.plan.study
    device, folder = job.processor(), RunFolder(job.folder)
    set_up(device, study.threads)
    data = load(job.plan.layout.data)
    defence, seed = job.of["defence"], job.of["seed"]
    network = network_options(study, defence, data)
    trainer = new_trainer(study, defence, seed, data.to(device))
    checkpoint = Checkpoint(checkpoint_place(job, data))
    resumed = Resumed(trainer, checkpoint, start)
    folder.metrics.unlink(missing_ok=True)  # of an older run of this name
    with checkpoint.written_when_interrupted():
        reason = resumed.finish(job.name, trainer.settings.epochs, SHOWN, folder.history)
        metrics = _metrics(trainer, reason) | _pruned(trainer, network)
        of = {"kind": "run", **job.of, "data_sha256": data.sha256}
        spent = {"wall_seconds": resumed.seconds}
        _write(folder, trainer, network, of | metrics | job.record(reason) | spent)
    checkpoint.remove()
    return [folder.metrics]


def new_trainer(study: Study, defence: str, seed: int, data: Prepared) -> Trainer:
    """Return the trainer of a run at its start, on the device of the data."""
    network = network_options(study, defence, data)
    return begin(
        study, defence, seed, data, lambda: build(**network).to(memory_format=torch.channels_last)
    )


def network_options(study: Study, defence: str, data: Prepared) -> dict[str, Any]:
    """Return the arguments of `cemlib.models.build`, as in the run's `config.json`."""
    options = study.network(defence).plain()
    normalised = options.pop("normalise")
    return {
        **options,
        "num_classes": len(data.classes),
        "image_size": data.image_shape[1],
        "sparse_coding": study.defence(defence).sparse_coding,
        "mean": data.mean if normalised else [0.0] * len(data.mean),
        "std": data.std if normalised else [1.0] * len(data.std),
    }


def checkpoint_place(job: Job[Study], data: Prepared) -> Path:
    """Return the checkpoint's folder, which depends on job, data, device and precision."""
    device = job.processor()
    precision = resolve(job.plan.study.training(job.of["defence"]).precision, device)
    return job.checkpoint(data.sha256, device.type, precision)


def _metrics(trainer: Trainer, reason: str | None) -> dict[str, Any]:
    """Deploy the selected epoch and score it; a failed run deploys no epoch."""
    model = trainer.deployed.model
    selection = trainer.selection
    selected = selection.deploy() if reason is None else None
    found = selection.final_scores() if reason is None else dict.fromkeys(SCORES)
    return {
        **found,
        "epochs": trainer.settings.epochs,
        "selected_epoch": selected,
        "selected_on": trainer.settings.select,
        "precision": trainer.step.precision,
        "parameters": {"client": _count(model.encoder), "server": _count(model.head)},
    }


def _pruned(trainer: Trainer, network: dict[str, Any]) -> dict[str, Any]:
    """Return the client's cost before and after pruning, if it was pruned."""
    if trainer.client_widths is None:
        return {}
    full, shape = build(**network), trainer.data.image_shape
    after = client_cost(trainer.deployed.model, shape)
    return {"client_cost": {"before_pruning": client_cost(full, shape), "deployed": after}}


def _write(
    folder: RunFolder, trainer: Trainer, network: dict[str, Any], metrics: dict[str, Any]
) -> None:
    """Write the run's files, the metrics last: a folder with metrics is complete."""
    write_jsonl(folder.history, trainer.history)
    network = network | {"client_widths": trainer.client_widths}
    origin = {"network": network, "seed": metrics["seed"], "data_sha256": metrics["data_sha256"]}
    write_json(folder.config, origin | metrics["config"])
    save_tensors(folder.model, trainer.deployed.model.state_dict())
    write_sealed(folder.metrics, metrics, [f for f in folder.files() if f != folder.metrics])


def _count(module: torch.nn.Module) -> int:
    return sum(weights.numel() for weights in module.parameters())
