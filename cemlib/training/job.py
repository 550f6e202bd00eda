"""The training job: from prepared data to the folder of one finished run."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from cemlib.config.study import Study
from cemlib.data.prepared import checksum, load
from cemlib.defences.pruning import client_cost
from cemlib.errors import DivergedError
from cemlib.models import build
from cemlib.numerics.precision import resolve, set_up
from cemlib.records.checkpoint import (
    Checkpoint,
    State,
    copied,
    pack,
    restore_training,
    training_state,
    unpack,
)
from cemlib.records.files import save_tensors, write_json, write_jsonl
from cemlib.records.layout import RunFolder
from cemlib.records.progress import progress
from cemlib.records.seal import write_sealed
from cemlib.study.job import Job
from cemlib.training.scores import SCORES, scores, shown
from cemlib.training.setup import Setup
from cemlib.training.trainer import Best, Trainer


def run(job: Job[Study]) -> list[Path]:
    """Train, deploy and score one run; write its folder and return its record's path.

    A run that diverges is finished too: its status is `failed`, its scores are null.
    """
    start, study = time.perf_counter(), job.plan.study
    device, folder = job.processor(), RunFolder(job.folder)
    set_up(device, study.threads)
    data = load(job.plan.layout.data)
    setup = Setup(study, job.of["defence"], job.of["seed"])
    network = setup.network(data)
    trainer = setup.trainer(data.to(device), network)
    checkpoint = Checkpoint(checkpoint_place(job))
    spent = _resume(trainer, checkpoint)
    for before in (folder.metrics, folder.clusters):  # of an older run of this name
        before.unlink(missing_ok=True)
    with checkpoint.written_when_interrupted():
        reason = _train(job, trainer, checkpoint, start - spent)
        metrics = _metrics(job, trainer, reason) | _pruned(trainer, network)
        metrics["wall_seconds"] = time.perf_counter() - start + spent
        _write(folder, trainer, network, metrics)
    checkpoint.remove()
    return [folder.metrics]


def checkpoint_place(job: Job[Study]) -> Path:
    """Return where the job keeps its state: also for these data, device and arithmetic."""
    device = job.processor()
    precision = resolve(job.plan.study.training(job.of["defence"]).precision, device)
    return job.checkpoint(checksum(job.plan.layout.data), device.type, precision)


def _train(job: Job[Study], trainer: Trainer, checkpoint: Checkpoint, start: float) -> str | None:
    """Run the epochs that are left; return why the run failed, or None."""
    epochs, done = trainer.settings.epochs, len(trainer.history)
    with progress(job.title, epochs, done) as report:
        try:
            for row in trainer.remaining():
                write_jsonl(RunFolder(job.folder).history, trainer.history)
                checkpoint.keep(_state(trainer, time.perf_counter() - start))
                report(row["epoch"], shown(row))
        except DivergedError as error:
            return str(error)
    return None


def _state(trainer: Trainer, spent: float) -> Callable[[], State]:
    """What a killed job resumes from, as it is now; stacked only when it is written."""
    weights = training_state(trainer.defended.modules, trainer.optimiser)
    weights = copied(weights | pack("penalty_optimiser", _own_optimiser(trainer)))
    history, fits, best = [*trainer.history], [*trainer.fits], trainer.best

    def state() -> State:
        tensors = weights | pack("best", best.weights) | _stacked(fits, "fits/")
        selected = {"epoch": best.epoch, "score": best.score}
        return tensors, {"history": history, "best": selected, "spent": spent}

    return state


def _resume(trainer: Trainer, checkpoint: Checkpoint) -> float:
    """Continue from the checkpoint, if there is one; return the seconds spent before it."""
    found = checkpoint.load()
    if found is None:
        return 0.0
    tensors, state = found
    tensors = {name: tensor.to(trainer.device) for name, tensor in tensors.items()}
    trainer.history = state["history"]
    trainer.prune_before(len(trainer.history))
    restore_training(tensors, trainer.defended.modules, trainer.optimiser)
    penalty = trainer.defended.penalty
    if penalty is not None and penalty.optimiser is not None:
        penalty.optimiser.load_state_dict(unpack("penalty_optimiser", tensors))
    trainer.best = Best(**state["best"], weights=unpack("best", tensors))
    trainer.fits = _unstacked({n: t.cpu() for n, t in unpack("fits", tensors).items()})
    return float(state["spent"])


def _own_optimiser(trainer: Trainer) -> dict[str, Tensor]:
    """State of the optimiser that a penalty trains its own weights with, if it has one."""
    penalty = trainer.defended.penalty
    optimiser = penalty.optimiser if penalty else None
    return optimiser.state_dict() if optimiser else {}


def _stacked(fits: list[dict[str, Tensor]], prefix: str = "") -> dict[str, Tensor]:
    names = fits[0] if fits else {}
    return {f"{prefix}{name}": torch.stack([fit[name] for fit in fits]) for name in names}


def _unstacked(stacked: dict[str, Tensor]) -> list[dict[str, Tensor]]:
    epochs = len(next(iter(stacked.values()), ()))
    return [{name: rows[epoch] for name, rows in stacked.items()} for epoch in range(epochs)]


def _metrics(job: Job[Study], trainer: Trainer, reason: str | None) -> dict[str, Any]:
    model = trainer.deployed.model
    # What a failed run leaves is no classifier: no epoch of it is deployed.
    selected = trainer.deploy() if reason is None else None
    found = scores(trainer) if reason is None else dict.fromkeys(SCORES)
    return {
        "kind": "run",
        "defence": job.of["defence"],
        "seed": job.of["seed"],
        **found,
        "epochs": trainer.settings.epochs,
        "selected_epoch": selected,
        "selected_on": trainer.settings.select,
        "precision": trainer.step.precision,
        "parameters": {"client": _count(model.encoder), "server": _count(model.head)},
        "data_sha256": checksum(job.plan.layout.data),
        **job.record(reason),
    }


def _pruned(trainer: Trainer, network: dict[str, Any]) -> dict[str, Any]:
    """What the client costs before and after pruning, where there was any."""
    if trainer.client_widths is None:
        return {}
    full, shape = build(**network), trainer.data.image_shape
    after = client_cost(trainer.deployed.model, shape)
    return {"client_cost": {"before_pruning": client_cost(full, shape), "deployed": after}}


def _write(
    folder: RunFolder, trainer: Trainer, network: dict[str, Any], metrics: dict[str, Any]
) -> None:
    """Write the run's files, its metrics last: a folder with metrics is a whole run."""
    write_jsonl(folder.history, trainer.history)
    network = network | {"client_widths": trainer.client_widths}
    origin = {"network": network, "seed": metrics["seed"], "data_sha256": metrics["data_sha256"]}
    write_json(folder.config, origin | metrics["config"])
    save_tensors(folder.model, trainer.deployed.model.state_dict())
    if trainer.fits:
        epochs = torch.arange(1, len(trainer.fits) + 1)
        save_tensors(folder.clusters, {"epochs": epochs} | _stacked(trainer.fits))
    others = {*folder.files(), folder.clusters} - {folder.metrics}
    write_sealed(folder.metrics, metrics, sorted(file for file in others if file.is_file()))


def _count(module: torch.nn.Module) -> int:
    return sum(weights.numel() for weights in module.parameters())
