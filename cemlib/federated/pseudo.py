"""Train the clients' GANs of one seed, once for all variants that mix."""

import time
from typing import Any

import torch

from cemlib.checkpoint import Checkpoint
from cemlib.data.prepared import checksum, load
from cemlib.device import set_up
from cemlib.federated.adversaries import Adversaries
from cemlib.federated.gan import Extractor, cached_weights, local, pretrained
from cemlib.federated.record import FederatedJob, Resumed
from cemlib.federated.setting import Clients, clients_of
from cemlib.files import save_tensors, write_jsonl

EXTRACTOR_STEPS = 100
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
    resumed, folder = Resumed(gans, checkpoint, start), plan.pseudo(job.seed)
    folder.metrics.unlink(missing_ok=True)
    with checkpoint.written_when_interrupted():
        reason = resumed.finish(job.title, study.gan.epochs, folder.history, SHOWN)
        found = {"extractor": extractor.origin, "wall_seconds": resumed.seconds}
        metrics = _write(job, gans, reason, found)
    checkpoint.remove()
    return metrics


def _extractor(job: FederatedJob, clients: Clients, classes: int) -> Extractor:
    """Return torchvision's convolution where it is at hand and wanted, else the clients' own."""
    file = cached_weights()
    if job.plan.study.extractor == "auto" and file.is_file():
        return pretrained(file, clients.images[0].shape[1], len(clients.images))
    return local(clients.images, clients.labels, classes, job.seed, EXTRACTOR_STEPS)


def _write(
    job: FederatedJob, gans: Adversaries, reason: str | None, found: dict[str, Any]
) -> dict[str, Any]:
    """Write the files, metrics last."""
    folder, plan = job.plan.pseudo(job.seed), job.plan
    save_tensors(folder.generators, gans.g_weights)
    epochs = sorted(gans.course)
    pictures = torch.stack([gans.course[epoch].cpu() for epoch in epochs], 1)
    save_tensors(folder.course, {"epochs": torch.tensor(epochs), "images": pictures})
    write_jsonl(folder.history, gans.history)
    last = gans.history[-1] if gans.history and reason is None else {}
    ended = {name: last.get(name) for name in ("d_loss", "g_loss", "variance", "drift")}
    ended["variance_error"] = abs(last["variance"] - gans.settings.v_e) if last else None
    decided = plan.study.pseudo_slice(), plan.pseudo_sources()
    return job.write("pseudo", reason, *decided, ended | found, folder.files())
