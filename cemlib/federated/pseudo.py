"""Train the clients' GANs of one seed, once for all variants that mix."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from cemlib.data.prepared import Prepared, Split
from cemlib.federated.gan import Extractor, cached_weights, local, pretrained
from cemlib.federated.gan_training import ClientGans
from cemlib.federated.job import read_data, write_record
from cemlib.federated.setting import clients_of
from cemlib.records.checkpoint import Checkpoint, Resumed
from cemlib.records.files import save_tensors, write_jsonl
from cemlib.study.federated import FederatedJob

EXTRACTOR_STEPS = 100
SHOWN = ("d_loss", "g_loss", "variance")


def run(job: FederatedJob) -> list[Path]:
    """Train the GANs, write their folder, and return the path of its record."""
    start, study, seed = time.perf_counter(), job.plan.study, job.of["seed"]
    data, device = read_data(job), job.processor()
    clients = clients_of(study, data, seed)
    classes = len(data.classes)
    kernels, source = _extractor(job, clients, classes)
    gans = ClientGans(clients, kernels.to(device), classes, study.gan, seed)
    origin = (data.sha256, device.type, str(source))
    checkpoint = Checkpoint(job.checkpoint(*origin))
    resumed, folder = Resumed(gans, checkpoint, start), job.plan.layout.gans(seed)
    folder.metrics.unlink(missing_ok=True)
    with checkpoint.written_when_interrupted():
        reason = resumed.finish(job.name, study.gan.epochs, SHOWN, folder.history)
        found = {"extractor": source, "wall_seconds": resumed.seconds}
        _write(job, data, gans, reason, found)
    checkpoint.remove()
    return [folder.metrics]


def _extractor(job: FederatedJob, clients: Sequence[Split], classes: int) -> Extractor:
    """Return torchvision's convolution if it is allowed and available, else the clients' own."""
    file = cached_weights()
    if job.plan.study.extractor == "auto" and file.is_file():
        return pretrained(file, clients[0].images.shape[1], len(clients))
    return local(clients, classes, job.of["seed"], EXTRACTOR_STEPS)


def _write(
    job: FederatedJob, data: Prepared, gans: ClientGans, reason: str | None, found: dict[str, Any]
) -> None:
    """Write the folder of the GANs, its metrics last."""
    folder = job.plan.layout.gans(job.of["seed"])
    save_tensors(folder.generators, gans.g_weights)
    epochs = sorted(gans.course)
    pictures = torch.stack([gans.course[epoch].cpu() for epoch in epochs], 1)
    save_tensors(folder.course, {"epochs": torch.tensor(epochs), "images": pictures})
    write_jsonl(folder.history, gans.history)
    last = gans.history[-1] if reason is None else {}
    ended = {name: last.get(name) for name in ("d_loss", "g_loss", "variance", "drift")}
    write_record(job, "gans", data, reason, ended | found)
