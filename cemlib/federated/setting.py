"""Set up a seed of a study: the clients' images, and the weights of the first round.

The images are dealt independently of the class, or with classes in Dirichlet shares: Hsu, Qi and
Brown, "Measuring the effects of non-identical data distribution for federated visual
classification", 2019, in the form of Li, Diao, Chen and He, ICDE 2022: the shares of each class
over the clients are one draw from a Dirichlet distribution; the smaller its concentration, the
fewer clients have most of a class.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from cemlib.config.federated import Federated
from cemlib.data.errors import DataError
from cemlib.data.pixels import to_float
from cemlib.data.prepared import Prepared
from cemlib.federated.network import FederatedNet, build
from cemlib.numerics.seeds import derive

ATTEMPTS = 1000


@dataclass(frozen=True)
class Clients:
    """Hold the images of every client.

    Attributes:
        images: Of each client (n, C, H, W) in [0, 1].
        labels: Of each client (n,).
    """

    images: list[Tensor]
    labels: list[Tensor]

    @property
    def samples(self) -> Tensor:
        """Return how many images each has, (clients,)."""
        return torch.tensor([len(labels) for labels in self.labels])


def clients_of(study: Federated, data: Prepared, seed: int) -> Clients:
    """Deal out the training images.

    Raises:
        DataError: if a client would have fewer images than a batch.
    """
    clients, least, draw = study.clients, study.train.batch_size, derive(seed, "federated/split")
    known = data.train.labels.cpu()
    if clients.split == "iid":
        parts = iid(known, clients.number, least, draw)
    else:
        parts = dirichlet(known, clients.number, clients.concentration, least, draw)
    images, labels = to_float(data.train.images), data.train.labels
    return Clients([images[part] for part in parts], [labels[part] for part in parts])


def network_of(study: Federated, data: Prepared, seed: int) -> FederatedNet:
    """Build the network with the weights of the first round, on the CPU."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive(seed, "federated/weights"))
        return build(
            study.model.name,
            num_classes=len(data.classes),
            image_shape=data.image_shape,
            activation=study.model.activation,
        )


def iid(labels: Tensor, clients: int, least: int, seed: int) -> list[Tensor]:
    """Deal the images out in random order, to sizes that differ by one at most.

    Args:
        labels: (N,) of all training images.
        clients: how many shall have some.
        least: images that every client must have.
        seed: of the draw.

    Returns:
        For each client the positions of its images.

    Raises:
        DataError: if there are too few images for so many clients.
    """
    order = torch.from_numpy(np.random.default_rng(seed).permutation(len(labels)))
    parts = list(order.tensor_split(clients))
    _check_sizes(parts, least, len(labels), "use fewer clients or a smaller batch_size")
    return parts


def dirichlet(
    labels: Tensor, clients: int, concentration: float, least: int, seed: int
) -> list[Tensor]:
    """Deal each class out in shares from a Dirichlet distribution (see `iid` for the rest).

    Drawn anew, up to `ATTEMPTS` times, until every client has `least` images.

    Raises:
        DataError: if no draw gives every client so many.
    """
    draws = np.random.default_rng(seed)
    parts: list[Tensor] = []
    for _ in range(ATTEMPTS):
        parts = _dealt(labels, clients, concentration, draws)
        if min(map(len, parts)) >= least:
            return parts
    advice = "raise clients.concentration, or use fewer clients or a smaller batch_size"
    _check_sizes(parts, least, len(labels), advice)
    return parts


def _dealt(
    labels: Tensor, clients: int, concentration: float, draws: np.random.Generator
) -> list[Tensor]:
    hands: list[list[Tensor]] = [[] for _ in range(clients)]
    for label in range(int(labels.max()) + 1):
        rows = (labels == label).nonzero().flatten()
        rows = rows[torch.from_numpy(draws.permutation(len(rows)))]
        shares = draws.dirichlet([concentration] * clients).cumsum()[:-1]
        cuts = torch.from_numpy((shares * len(rows)).round().astype(np.int64))
        for hand, part in zip(hands, rows.tensor_split(cuts), strict=True):
            hand.append(part)
    return [torch.cat(hand) for hand in hands]


def _check_sizes(parts: list[Tensor], least: int, total: int, advice: str) -> None:
    smallest = min(map(len, parts))
    if smallest < least:
        raise DataError(
            f"{total} training images for {len(parts)} clients: one would have {smallest}, and each"
            f" needs {least} (a batch); {advice}"
        )
