"""The job that trains the clients' GANs of one seed, once for all variants that mix."""

import time
from typing import Any

import torch
from torch import Tensor

from cemlib.checkpoint import Checkpoint, State, copied, pack, unpack
from cemlib.data.prepared import checksum, load
from cemlib.device import set_up
from cemlib.errors import DivergedError
from cemlib.federated.adversaries import Adversaries
from cemlib.federated.extractor import Extractor, cached_weights, local, pretrained
from cemlib.federated.record import FederatedJob
from cemlib.federated.setting import Clients, clients_of
from cemlib.files import save_tensors, write_jsonl
from cemlib.progress import progress
from cemlib.seal import write_sealed

EXTRACTOR_STEPS = 100
KEPT = 6  # epochs whose images are kept, evenly spaced
SHOWN = ("d_loss", "g_loss", "variance")


def run(job: FederatedJob) -> dict[str, Any]:
    """Train the GANs; write their folder and return its metrics.

    Raises:
        DataError: if the prepared data are missing or damaged, or too few for the clients.
        FileError: if torchvision's weights at hand are damaged.
    """
    start = time.perf_counter()
    study, plan = job.plan.study, job.plan
    set_up(job.device, study.threads)
    data = load(plan.layout.data).to(job.device)
    clients = clients_of(study, data, job.seed)
    extractor = _extractor(job, clients, len(data.classes))
    kernels = extractor.kernels.to(job.device)
    gans = Adversaries(
        clients.images, clients.labels, kernels, len(data.classes), study.gan, job.seed
    )
    origin = f"{checksum(plan.layout.data)}/{job.device.type}/{extractor.origin}"
    checkpoint = Checkpoint(plan.pseudo_checkpoint(job.seed, origin))
    course, spent = _resume(gans, checkpoint)
    plan.pseudo(job.seed).metrics.unlink(missing_ok=True)
    with checkpoint.written_when_interrupted():
        reason = _train(job, gans, course, checkpoint, start - spent)
        facts = {"extractor": extractor.origin, "wall_seconds": time.perf_counter() - start + spent}
        metrics = _write(job, gans, course, reason, facts)
    checkpoint.remove()
    return metrics


def _extractor(job: FederatedJob, clients: Clients, classes: int) -> Extractor:
    """Torchvision's convolution where its weights are at hand and wanted, else the clients' own."""
    file = cached_weights()
    if job.plan.study.extractor == "auto" and file.is_file():
        return pretrained(file, clients.images[0].shape[1], len(clients.images))
    return local(clients.images, clients.labels, classes, job.seed, EXTRACTOR_STEPS)


def _train(
    job: FederatedJob,
    gans: Adversaries,
    course: dict[int, Tensor],
    checkpoint: Checkpoint,
    start: float,
) -> str | None:
    """Run the epochs that are left; why it failed, or None."""
    epochs = gans.settings.epochs
    kept = {round(epochs * part / (KEPT - 1)) for part in range(KEPT)}
    if not gans.history:
        course[0] = gans.shown()
    with progress(job.title, epochs, len(gans.history)) as report:
        try:
            for row in gans.remaining():
                if row["epoch"] in kept:
                    course[row["epoch"]] = gans.shown()
                write_jsonl(job.plan.pseudo(job.seed).history, gans.history)
                state = _state(gans, course, time.perf_counter() - start)
                checkpoint.keep(lambda state=state: state)  # type: ignore[misc]
                report(row["epoch"], {name: row[name] for name in SHOWN})
        except DivergedError as error:
            return str(error)
    return None


def _state(gans: Adversaries, course: dict[int, Tensor], spent: float) -> State:
    tensors = pack("g", gans.g_weights) | pack("d", gans.d_weights)
    tensors |= pack("g_optimiser", gans.g_optimiser.state_dict())
    tensors |= pack("d_optimiser", gans.d_optimiser.state_dict())
    tensors |= pack("course", {str(epoch): images for epoch, images in course.items()})
    return copied(tensors), {"history": [*gans.history], "spent": spent}


def _resume(gans: Adversaries, checkpoint: Checkpoint) -> tuple[dict[int, Tensor], float]:
    """Continue from the checkpoint, if there is one: its course of images, and its seconds."""
    found = checkpoint.load()
    if found is None:
        return {}, 0.0
    tensors, state = found
    gans.history = state["history"]
    with torch.no_grad():
        for prefix, weights in (("g", gans.g_weights), ("d", gans.d_weights)):
            for name, tensor in unpack(prefix, tensors).items():
                weights[name].copy_(tensor)
    gans.g_optimiser.load_state_dict(unpack("g_optimiser", tensors))
    gans.d_optimiser.load_state_dict(unpack("d_optimiser", tensors))
    course = {int(epoch): images for epoch, images in unpack("course", tensors).items()}
    return course, float(state["spent"])


def _write(
    job: FederatedJob,
    gans: Adversaries,
    course: dict[int, Tensor],
    reason: str | None,
    facts: dict[str, Any],
) -> dict[str, Any]:
    """Write the files, metrics last."""
    folder, plan = job.plan.pseudo(job.seed), job.plan
    save_tensors(folder.generators, gans.g_weights)
    epochs = sorted(course)
    pictures = torch.stack([course[epoch].cpu() for epoch in epochs], 1)
    save_tensors(folder.course, {"epochs": torch.tensor(epochs), "images": pictures})
    write_jsonl(folder.history, gans.history)
    last = gans.history[-1] if gans.history and reason is None else {}
    record = job.record(reason, plan.study.pseudo_slice(), plan.pseudo_sources())
    ended = {name: last.get(name) for name in ("d_loss", "g_loss", "variance", "drift")}
    ended["variance_error"] = abs(last["variance"] - gans.settings.v_e) if last else None
    metrics = {"kind": "pseudo"} | record | ended | facts
    metrics["data_sha256"] = checksum(plan.layout.data)
    write_sealed(folder.metrics, metrics, [f for f in folder.files() if f != folder.metrics])
    return metrics
