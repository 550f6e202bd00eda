"""Draw the random numbers of a round from separate streams: who answers, batches, ratios.

A client's draws depend on the seed, the client and the round alone, not on who else takes part.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from cemlib.config.federated import ClientsConfig, Mixing
from cemlib.numerics.seeds import derive, generator


def ask(clients: ClientsConfig, seed: int, number: int) -> tuple[list[int], list[int]]:
    """Return the clients that are asked in a round, and those of them that do not drop out."""
    count = max(1, round(clients.participation * clients.number))
    draws = generator(seed, "federated/participation", number)
    asked = sorted(torch.randperm(clients.number, generator=draws)[:count].tolist())
    streams = {client: Draws(seed, client, number).stream("dropout") for client in asked}
    chances = {client: float(torch.rand((), generator=streams[client])) for client in asked}
    return asked, [client for client in asked if chances[client] >= clients.dropout]


# In place of a round's number: for attacked images, for all rounds, and (LINKED - i) for the
# mixtures that are linked with attacked image i.
ATTACKED, FIXED, LINKED = 0, -1, -2


@dataclass(frozen=True)
class Draws:
    """The random numbers of a client in a round; rounds are numbered from 1."""

    seed: int
    client: int
    number: int

    def stream(self, name: str) -> torch.Generator:
        """Return the client's generator for the stream of a given name."""
        return generator(self.seed, f"federated/{name}/{self.client}", self.number)

    def batches(self, images: int, steps: int, size: int) -> Tensor:
        """Return image positions (steps, size), shuffled anew whenever no whole batch is left."""
        draws, whole = self.stream("batches"), images // size * size
        passes = -(-steps * size // whole)
        orders = [torch.randperm(images, generator=draws)[:whole] for _ in range(passes)]
        return torch.cat(orders)[: steps * size].view(steps, size)

    def latents(self, count: int, length: int) -> Tensor:
        """Return standard normal noise for the client's generator: (count, length)."""
        return torch.randn(count, length, generator=self.stream("latents"))

    def noise_and_shares(
        self, mixing: Mixing, latent: int, rows: Tensor, images: int
    ) -> tuple[Tensor, Tensor]:
        """Return noise (count, latent) and shares (count,) for the client's images `rows` (count,).

        If pseudo images are fixed, both are drawn once for all `images` images of the client.
        """
        if mixing.pseudo == "fresh":
            return self.latents(len(rows), latent), self.ratios(mixing, len(rows))
        once = Draws(self.seed, self.client, FIXED)
        return once.latents(images, latent)[rows], once.ratios(mixing, images)[rows]

    def ratios(self, mixing: Mixing, count: int) -> Tensor:
        """Return the share of the real image in each of the client's mixtures: (count,)."""
        if mixing.beta is None:
            return torch.full((count,), float(mixing.lam or 0.0))
        draws = np.random.default_rng(
            derive(self.seed, f"federated/ratios/{self.client}", self.number)
        )
        return torch.from_numpy(draws.beta(*mixing.beta, size=count)).float()
