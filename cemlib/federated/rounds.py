"""Carry out rounds of federated averaging, with all clients in one process.

Source: McMahan, Moore, Ramage, Hampson and Aguera y Arcas, "Communication-efficient learning of
deep networks from decentralized data", AISTATS 2017, algorithm 1.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.func import functional_call

from cemlib.config.federated import Federated, Variant
from cemlib.data.prepared import Prepared, Split, to_float
from cemlib.federated.client import Inputs, step_inputs, step_of, train_at_once
from cemlib.federated.drawing import Draws, ask
from cemlib.federated.gan_training import Pseudo
from cemlib.federated.network import FederatedNet, Weights, weights_of
from cemlib.federated.setting import batches, clients_of, network_of
from cemlib.numerics.divergence import DivergedError, check_finite
from cemlib.records.checkpoint import State, copied, pack, unpack

CHUNK = 512  # images that are scored at once


@dataclass
class Federation:
    """A server and its clients, and their rounds."""

    study: Federated
    variant: Variant
    data: Prepared
    pseudo: Pseudo | None
    seed: int
    history: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        device = self.data.train.labels.device
        self.net: FederatedNet = network_of(self.study, self.data, self.seed).to(device)
        self.weights: Weights = weights_of(self.net)
        self.clients = clients_of(self.study, self.data, self.seed)

    def epoch(self, number: int) -> dict[str, Any]:
        """Carry out a round, and return its row; raise DivergedError if the training diverges."""
        start = time.perf_counter()
        row = {"epoch": number} | self._round(number)
        seconds = time.perf_counter() - start
        row |= score(self.net, self.weights, self.data.val, "val_")
        check_finite(number, val_loss=row["val_loss"])
        row["seconds"] = seconds
        self.history.append(row)
        return row

    def state(self) -> State:
        """Return the state from which a killed job resumes; random draws need none (`Draws`)."""
        return copied(pack("weights", self.weights)), {}

    def restore(self, tensors: dict[str, Tensor], _state: dict[str, Any]) -> None:
        """Continue from such a state."""
        device = self.data.train.labels.device
        self.weights = {n: t.to(device) for n, t in unpack("weights", tensors).items()}

    def answers(self, members: Sequence[int], number: int) -> tuple[Weights, Tensor]:
        """Train one or more clients in a round; return what `train_at_once` does, in this order."""
        step, work = step_of(self.net, self.variant), self.work(members, number)
        return train_at_once(step, self.weights, work, self.study.train.lr)

    def work(self, members: Sequence[int], number: int) -> list[Inputs]:
        """Return the inputs of some clients in each step of a round."""
        draws, size = [Draws(self.seed, client, number) for client in members], self.study.train
        own = [self.clients[client] for client in members]
        rows = [
            drawn.batches(len(each), size.local_steps, size.batch_size)
            for drawn, each in zip(draws, own, strict=True)
        ]
        x, y = batches(own, rows)
        return step_inputs(self.net, self.variant, self._mixed(x, y, rows, draws), y, draws)

    def _round(self, number: int) -> dict[str, Any]:
        asked, answering = ask(self.study.clients, self.seed, number)
        sent = 4 * sum(w.numel() for w in self.weights.values())  # bytes, in float32
        excluded, loss = 0, None
        if answering:
            changes, losses = self.answers(answering, number)
            usable = torch.stack([c.flatten(1).isfinite().all(1) for c in changes.values()]).all(0)
            if not usable.any():
                raise DivergedError(
                    f"round {number}: no answer holds finite numbers; a lower train.lr may help"
                )
            samples = torch.tensor([len(self.clients[client]) for client in answering])
            changes = {name: change[usable] for name, change in changes.items()}
            self.weights = aggregate(self.weights, changes, samples.to(usable.device)[usable])
            excluded = int((~usable).sum())
            loss = float(losses.nanmean())
        return {
            "asked": len(asked),
            "dropped": len(asked) - len(answering),
            "excluded": excluded,
            "train_loss": loss,
            "bytes_down": sent * len(asked),
            "bytes_up": sent * len(answering),
        }

    def _mixed(
        self, x: Tensor, y: Tensor, rows: Sequence[Tensor], draws: Sequence[Draws]
    ) -> Tensor:
        """Mix pseudo images into x, if the variant mixes; `rows` (steps, B) are each client's."""
        mixing, latent = self.variant.mixing, self.study.gan.latent
        if mixing is None or self.pseudo is None:
            return x
        images, labels = x.flatten(1, 2), y.flatten(1)
        owners = [drawn.client for drawn in draws]
        mixtures = (
            drawn.noise_and_shares(mixing, latent, own.flatten(), len(self.clients[drawn.client]))
            for drawn, own in zip(draws, rows, strict=True)
        )
        noise, shares = (torch.stack(part) for part in zip(*mixtures, strict=True))
        return self.pseudo.mixed(images, labels, owners, noise, shares).view_as(x)


def score(net: FederatedNet, weights: Weights, split: Split, prefix: str) -> dict[str, float]:
    """Return <prefix>top1 and <prefix>loss: accuracy and mean cross-entropy on a split."""
    right, loss = 0.0, 0.0
    with torch.no_grad():
        parts = zip(torch.split(split.images, CHUNK), torch.split(split.labels, CHUNK), strict=True)
        for images, labels in parts:
            found = functional_call(net, weights, to_float(images))
            right += float((found.argmax(1) == labels).sum())
            loss += float(torch.nn.functional.cross_entropy(found, labels, reduction="sum"))
    return {f"{prefix}top1": right / len(split), f"{prefix}loss": loss / len(split)}


def aggregate(weights: Weights, updates: Weights, samples: Tensor) -> Weights:
    """Return weights plus the mean update of the clients (clients, ...), weighted by `samples`.

    Example:
        >>> updates = {"w": torch.tensor([[1.0], [5.0]])}
        >>> aggregate({"w": torch.zeros(1)}, updates, torch.tensor([3, 1]))
        {'w': tensor([2.])}
    """
    shares = samples.to(torch.float64) / samples.sum()
    return {
        name: w + torch.tensordot(shares.to(w), updates[name], dims=1)
        for name, w in weights.items()
    }
