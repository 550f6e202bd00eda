"""The client's forward pass, whole and with half of its channels pruned."""

import copy
from typing import Any

import torch

from cemlib.bench.floor import floor_ms
from cemlib.bench.scale import Scale
from cemlib.bench.subject import split_model
from cemlib.bench.timing import compared, timed
from cemlib.config.study import PRUNABLE
from cemlib.defences.pruning import client_cost, prune
from cemlib.models import SplitModel


def client(scale: Scale) -> dict[str, Any]:
    """Size and float32 forward pass of a batch; only stacks can be pruned."""
    torch.set_num_threads(scale.threads)
    torch.manual_seed(0)
    whole = split_model(scale).to(scale.device).to(memory_format=torch.channels_last)
    clients = {"whole": whole}
    if scale.network in PRUNABLE:
        clients["pruned by half"] = copy.deepcopy(whole)
        prune(clients["pruned by half"], 0.5)
    return {name: _forward(model, scale) for name, model in clients.items()}


def _forward(model: SplitModel, scale: Scale) -> dict[str, Any]:
    shape = (scale.channels, scale.image_size, scale.image_size)
    encoder, images = model.encoder.eval(), torch.rand((scale.batch, *shape), device=scale.device)
    images = images.contiguous(memory_format=torch.channels_last)
    with torch.no_grad():
        ours = timed(lambda: encoder(images), scale.repeats, scale.device)
    cost = client_cost(model, shape)
    floor = floor_ms(cost["flops"] * scale.batch, scale.device, scale.threads)
    return compared(ours, None, "a cost of its own", floor) | cost
