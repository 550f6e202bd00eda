"""Draw what a round needs, from separate streams: who answers, batches, noise, ratios.

A client's draws depend on the seed, the client and the round alone. So they are the same whoever
else takes part, whether the clients are trained at once or one by one, and in which process.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from cemlib.config.federated import ClientsConfig, Mixing
from cemlib.federated.mask import draw_columns
from cemlib.numerics.seeds import derive, generator


@dataclass(frozen=True)
class Asked:
    """Hold who was asked in a round, and what became of it; client numbers in ascending order.

    Attributes:
        selected: All that were asked.
        answering: Those that did not drop out.
        corrupt: Those whose answer holds no numbers.
    """

    selected: list[int]
    answering: list[int]
    corrupt: list[int]


def ask(clients: ClientsConfig, seed: int, number: int) -> Asked:
    """Choose the clients of a round."""

    def happens(client: int, fault: str, chance: float) -> bool:
        return float(torch.rand((), generator=Draws(seed, client, number).stream(fault))) < chance

    count = max(1, round(clients.participation * clients.number))
    draws = generator(seed, "federated/participation", number)
    selected = sorted(torch.randperm(clients.number, generator=draws)[:count].tolist())
    answering = [client for client in selected if not happens(client, "dropout", clients.dropout)]
    corrupt = [client for client in answering if happens(client, "corrupt", clients.corrupt)]
    return Asked(selected, answering, corrupt)


@dataclass(frozen=True)
class Draws:
    """Draw what a client needs in a round (round 0: for the attacked images)."""

    seed: int
    client: int
    number: int

    def stream(self, name: str) -> torch.Generator:
        """Return the client's stream of a name."""
        return generator(self.seed, f"federated/{name}/{self.client}", self.number)

    def batches(self, images: int, steps: int, size: int) -> Tensor:
        """Return which of its images the client takes in each step: (steps, size).

        Its shuffled images one after the other; when they are used up they are shuffled anew.
        """
        draws, whole = self.stream("batches"), images // size * size
        passes = -(-steps * size // whole)
        orders = [torch.randperm(images, generator=draws)[:whole] for _ in range(passes)]
        return torch.cat(orders)[: steps * size].view(steps, size)

    def columns(self, beta: int | None, outputs: int, steps: int) -> Tensor:
        """Return the columns of H that the mask replaces in each step: (steps, outputs)."""
        draws = self.stream("columns")
        return torch.stack([draw_columns(beta, outputs, draws) for _ in range(steps)])

    def latents(self, count: int, length: int) -> Tensor:
        """Return standard normal noise for the client's generator: (count, length)."""
        return torch.randn(count, length, generator=self.stream("latents"))

    def ratios(self, mixing: Mixing, count: int) -> Tensor:
        """Return the share of the real image in each of the client's mixtures: (count,)."""
        if mixing.beta is None:
            return torch.full((count,), float(mixing.lam or 0.0))
        draws = np.random.default_rng(
            derive(self.seed, f"federated/ratios/{self.client}", self.number)
        )
        return torch.from_numpy(draws.beta(*mixing.beta, size=count)).float()
