"""An epoch of the decoder attack, against a loop that sends its images through the encoder.

Public code trains the attacker in plain float32 on pictures from a DataLoader, which pass the
frozen encoder anew in every epoch. Ours computes the features once and keeps them.
"""

import copy
from itertools import count
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from cemlib.attacks.learning import Regression, squared_error
from cemlib.attacks.start import untrained
from cemlib.attacks.task import Pairs, Task
from cemlib.bench.floor import floor_ms, flops
from cemlib.bench.ours import with_images
from cemlib.bench.reference import Pictures, loader
from cemlib.bench.scale import NOISE_STD, Scale
from cemlib.bench.subject import images, split_model, study
from cemlib.bench.timing import Work, alternately, compared
from cemlib.checkpoint import Checkpoint
from cemlib.data.prepared import Split
from cemlib.defences.channels.noise import GaussianNoise
from cemlib.defences.deployed import Deployed
from cemlib.device import set_up
from cemlib.precision import resolve

AGAINST = "plain float32 eager loop with a DataLoader, images through the encoder"


def attack(scale: Scale) -> dict[str, Any]:
    """One training step of the attacker, as a share of an epoch's pass over a few of them."""
    device = torch.device(scale.device)
    set_up(device, scale.threads)
    torch.manual_seed(0)
    owned = images(scale.steps * scale.attack_batch, scale)
    ours, plain = _ours(owned, scale), _Plain(owned, scale)
    numbers = count(1)
    passes = (lambda: ours.pass_over(next(numbers)), plain.pass_over)
    found = alternately([Work(each, scale.steps) for each in passes], scale.passes, scale.device)
    own, reference = (with_images(timing, scale.attack_batch) for timing in found)
    precision, operations = resolve("auto", device), _step_flops(scale)
    floor = floor_ms(operations, scale.device, scale.threads, precision)
    step = compared(own, reference, AGAINST, floor) | {"flops": operations}
    return {"precision": precision, "threads": scale.threads, "step": step}


class _Plain:
    """The attacker's training as public code has it.

    Args:
        owned: the attacker's images.
        scale: network, batch and loader.
    """

    def __init__(self, owned: Split, scale: Scale) -> None:
        self.device = scale.device
        self.encoder = split_model(scale).encoder.to(scale.device).eval()
        self.decoder = _decoder(scale).to(scale.device)
        pictures = Pictures(owned, augmented=False)
        self.loader = loader(pictures, scale.attack_batch, scale.workers, shuffle=True)
        parameters = self.decoder.parameters()
        self.optimiser = torch.optim.Adam(parameters, lr=1e-3, weight_decay=1e-4)

    def pass_over(self) -> list[float]:
        """One epoch; the loss of every step."""
        self.decoder.train()
        return [self._step(batch.to(self.device)) for batch, _ in self.loader]

    def _step(self, targets: torch.Tensor) -> float:
        with torch.no_grad():
            features = self.encoder(targets)
        answers = self.decoder(features + NOISE_STD * torch.randn_like(features))
        loss = F.mse_loss(answers, targets)
        self.optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimiser.step()
        return loss.item()


def _ours(owned: Split, scale: Scale) -> Regression:
    """The attack on an untrained classifier: what it costs does not depend on the weights."""
    model = split_model(scale).to(scale.device).to(memory_format=torch.channels_last)
    victim = Deployed(model, GaussianNoise(NOISE_STD))
    there = owned.to(scale.device)
    pairs = Pairs(there.images, victim.features(there.images), there.labels)
    task = Task(
        victim=victim,
        own=pairs,
        held_out=pairs.part(slice(1)),
        released=pairs.features[:1],
        options=_options(scale),
        seed=0,
        title="bench",
        checkpoint=Checkpoint(Path("never-written")),
        judge=copy.deepcopy(model),
    )
    return Regression(task, squared_error)


def _options(scale: Scale) -> dict[str, Any]:
    return study(scale).attacks["residual"].model_dump()


def _decoder(scale: Scale) -> nn.Module:
    shape = (scale.channels, scale.image_size, scale.image_size)
    return untrained(_options(scale), split_model(scale).feature_shape, shape)


def _step_flops(scale: Scale) -> float:
    """Operations of the decoder's forward and backward pass on a batch."""
    with torch.device("meta"):
        decoder, shape = _decoder(scale), split_model(scale).feature_shape
        features = torch.empty(scale.attack_batch, *shape)
    return flops(lambda: decoder(features).sum().backward())
