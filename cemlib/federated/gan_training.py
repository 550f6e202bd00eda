"""Train the GANs of all clients at once, stacked, each on the images of its client alone."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.func import functional_call, stack_module_state, vmap

from cemlib.config.federated import GanConfig
from cemlib.data.prepared import Split, image_shape, to_float
from cemlib.federated import gan
from cemlib.federated.gan import Discriminator, Generator
from cemlib.federated.network import Weights
from cemlib.federated.setting import random_batches
from cemlib.numerics.divergence import check_finite
from cemlib.numerics.optim import Adam
from cemlib.numerics.seeds import derive, generator
from cemlib.records.checkpoint import State, copied, pack, unpack

KEPT = 6  # epochs whose images are kept
BETAS = (0.5, 0.999)  # of Adam, as Radford, Metz and Chintala, ICLR 2016, train a GAN


@dataclass
class ClientGans:
    """The GANs of all clients, stacked, in training; `course` has images after some epochs."""

    clients: Sequence[Split]
    kernels: Tensor
    num_classes: int
    settings: GanConfig
    seed: int
    history: list[dict[str, Any]] = field(default_factory=list)
    course: dict[int, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        first = to_float(self.clients[0].images[:1])
        shape, features = image_shape(first), image_shape(gan.extracted(first, self.kernels[0]))
        latent, width = self.settings.latent, self.settings.width
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derive(self.seed, "federated/gan"))
            net = Generator(shape, self.num_classes, latent, width)
            self.discriminator = Discriminator(features, self.num_classes, width)
        clients, device = len(self.clients), self.kernels.device
        self.g_weights, _ = stack_module_state([net.to(device)] * clients)
        self.d_weights, _ = stack_module_state([self.discriminator.to(device)] * clients)
        self.pseudo = Pseudo(net, self.g_weights)
        self.g_optimiser = Adam(self.g_weights.values(), betas=BETAS)
        self.d_optimiser = Adam(self.d_weights.values(), betas=BETAS)

    def epoch(self, number: int) -> dict[str, Any]:
        """Train one epoch, and return its row; raise DivergedError if a GAN diverges."""
        kept = {round(self.settings.epochs * part / (KEPT - 1)) for part in range(KEPT)}
        before = self.shown()
        if number == 1:
            self.course[0] = before
        row = {"epoch": number} | self._first_phase(number) | self._second_phase(number)
        after = self.shown()
        row["drift"] = float((after - before).square().mean())
        # The losses are from before the last steps; what these break shows in the drift.
        check_finite(number, **{name: row[name] for name in ("d_loss", "g_loss", "drift")})
        self.history.append(row)
        if number in kept:
            self.course[number] = after
        return row

    def state(self) -> State:
        """Return the state from which a killed job resumes."""
        tensors = pack("g", self.g_weights) | pack("d", self.d_weights)
        tensors |= pack("g_optimiser", self.g_optimiser.state_dict())
        tensors |= pack("d_optimiser", self.d_optimiser.state_dict())
        tensors |= pack("course", {str(epoch): x for epoch, x in self.course.items()})
        return copied(tensors), {}

    def restore(self, tensors: dict[str, Tensor], _state: dict[str, Any]) -> None:
        """Continue from such a state."""
        with torch.no_grad():
            for prefix, weights in (("g", self.g_weights), ("d", self.d_weights)):
                for name, tensor in unpack(prefix, tensors).items():
                    weights[name].copy_(tensor)
        self.g_optimiser.load_state_dict(unpack("g_optimiser", tensors))
        self.d_optimiser.load_state_dict(unpack("d_optimiser", tensors))
        self.course = {int(epoch): x for epoch, x in unpack("course", tensors).items()}

    def shown(self) -> Tensor:
        """Return images generated from fixed noise, one per class: (clients, classes, C, H, W)."""
        clients, device = len(self.clients), self.kernels.device
        draws = generator(self.seed, "federated/gan/shown")
        e = torch.randn(self.num_classes, self.settings.latent, generator=draws).to(device)
        y = torch.arange(self.num_classes, device=device)
        with torch.no_grad():
            return self.pseudo.images(e.expand(clients, -1, -1), y.expand(clients, -1))

    def _first_phase(self, epoch: int) -> dict[str, float]:
        """Train the discriminators with the generators fixed."""
        totals = []
        for step in range(self.settings.discriminator_steps):
            x, y = self._real(epoch, step, "first")
            with torch.no_grad():
                made = self.pseudo.images(self._noise(epoch, step, "first"), y)
            real, fake = self._logits(x, y), self._logits(made, y)
            loss = torch.stack([*map(gan.discriminator_loss, real, fake)])
            _update(self.d_optimiser, loss.sum(), self.settings.lr)
            chances = [real.sigmoid().mean(), fake.sigmoid().mean()]
            totals.append(torch.stack([loss.mean(), *chances]).detach())
        means = torch.stack(totals).mean(0).tolist()
        return dict(zip(("d_loss", "d_real", "d_fake"), means, strict=True))

    def _second_phase(self, epoch: int) -> dict[str, float]:
        """Train the generators with the discriminators fixed."""
        loss_of = partial(gan.generator_loss, mu=self.settings.mu, v_e=self.settings.v_e)
        totals = []
        for step in range(self.settings.generator_steps):
            y = self._real(epoch, step, "second")[1]
            made = self.pseudo.images(self._noise(epoch, step, "second"), y)
            spread = torch.stack([gan.variance(m, self.settings.variance) for m in made])
            loss = torch.stack([*map(loss_of, self._logits(made, y), spread)])
            _update(self.g_optimiser, loss.sum(), self.settings.lr)
            totals.append(torch.stack([loss.mean(), spread.mean()]).detach())
        means = torch.stack(totals).mean(0).tolist()
        return dict(zip(("g_loss", "variance"), means, strict=True))

    def _logits(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the logits of each client's discriminator on its images: (clients, B)."""
        features = vmap(gan.extracted)(x, self.kernels)
        each = vmap(partial(functional_call, self.discriminator))
        logits: Tensor = each(self.d_weights, (features, y))
        return logits

    def _real(self, epoch: int, step: int, phase: str) -> tuple[Tensor, Tensor]:
        draws = [
            generator(self.seed, f"federated/gan/{phase}/{client}/{step}", epoch)
            for client in range(len(self.clients))
        ]
        return random_batches(self.clients, self.settings.batch_size, draws)

    def _noise(self, epoch: int, step: int, phase: str) -> Tensor:
        draws = generator(self.seed, f"federated/gan/noise/{phase}/{step}", epoch)
        shape = (len(self.clients), self.settings.batch_size, self.settings.latent)
        return torch.randn(shape, generator=draws).to(self.kernels.device)


@dataclass(frozen=True)
class Pseudo:
    """The generators of all clients, which make pseudo images."""

    net: Generator  # one of them, for its architecture
    weights: Weights  # of all clients' generators by name, stacked (clients, ...)

    def images(self, e: Tensor, y: Tensor) -> Tensor:
        """Return G(e|y) of each client (clients, B, C, H, W), for e (clients, B, latent)."""
        images: Tensor = vmap(partial(functional_call, self.net))(self.weights, (e, y))
        return images

    def mixed(
        self, x: Tensor, y: Tensor, owners: Sequence[int], e: Tensor, share: Tensor
    ) -> Tensor:
        """Return share x + (1 - share) G(e|y), for images x (M, B, C, H, W) of M owners.

        Labels and shares are (M, B), the noise e (M, B, latent). A client may own several batches.
        """
        own = {name: tensor[list(owners)] for name, tensor in self.weights.items()}
        with torch.no_grad():
            made = Pseudo(self.net, own).images(e.to(x), y)
        share = share.to(x)[..., None, None, None]
        return share * x + (1 - share) * made


def _update(optimiser: Adam, loss: Tensor, lr: float) -> None:
    """Take a step on the sum of the losses: clients share no weights, so each follows its own."""
    optimiser.zero_grad()
    loss.backward(inputs=optimiser.parameters)  # type: ignore[no-untyped-call]
    optimiser.step(lr)
