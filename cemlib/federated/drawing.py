"""Draw what a round needs, from streams of their own: who answers, batches, noise, ratios.

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
    draws = generator(seed, "federated/participation", number)
    count = max(1, round(clients.participation * clients.number))
    order = torch.randperm(clients.number, generator=draws)
    selected = sorted(order[:count].tolist())
    dropped = _struck(selected, clients.dropout, seed, "dropout", number)
    answering = [client for client in selected if client not in dropped]
    corrupt = _struck(answering, clients.corrupt, seed, "corrupt", number)
    return Asked(selected, answering, sorted(corrupt))


def _struck(clients: list[int], chance: float, seed: int, fault: str, number: int) -> set[int]:
    def draw(client: int) -> float:
        draws = generator(seed, f"federated/{fault}/{client}", number)
        return float(torch.rand((), generator=draws))

    return {client for client in clients if draw(client) < chance}


def batches(images: int, steps: int, size: int, seed: int, client: int, number: int) -> Tensor:
    """Draw which of its images a client takes in each step of a round: (steps, size).

    Its shuffled images one after the other; when they are used up they are shuffled anew.
    """
    draws = generator(seed, f"federated/batches/{client}", number)
    passes = -(-steps // (images // size))
    whole = images // size * size
    orders = [torch.randperm(images, generator=draws)[:whole] for _ in range(passes)]
    return torch.cat(orders)[: steps * size].view(steps, size)


def columns(beta: float, outputs: int, steps: int, seed: int, client: int, number: int) -> Tensor:
    """Draw the columns of H that are the mask, for each step of a round: (steps, outputs)."""
    draws = generator(seed, f"federated/columns/{client}", number)
    return torch.stack([draw_columns(beta, outputs, draws) for _ in range(steps)])


def latents(shape: tuple[int, ...], seed: int, client: int, number: int) -> Tensor:
    """Draw standard normal noise for a client's generator."""
    draws = generator(seed, f"federated/latents/{client}", number)
    return torch.randn(shape, generator=draws)


def ratios(mixing: Mixing, count: int, seed: int, client: int, number: int) -> Tensor:
    """Draw the share of the real image in each of a client's mixtures: (count,)."""
    if mixing.beta is None:
        return torch.full((count,), float(mixing.lam or 0.0))
    draws = np.random.default_rng(derive(seed, f"federated/ratios/{client}", number))
    return torch.from_numpy(draws.beta(*mixing.beta, size=count)).float()


def noise_stream(seed: int, client: int, number: int) -> torch.Generator:
    """Return the stream of the noise of a client's private gradients in a round."""
    return generator(seed, f"federated/noise/{client}", number)
