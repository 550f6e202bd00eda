"""Set up a seed of a study: the clients' images, and the weights of the first round.

The images are dealt out independently of the class, or each class in Dirichlet shares: Hsu, Qi and
Brown, "Measuring the effects of non-identical data distribution for federated visual
classification", 2019, in the form of Li, Diao, Chen and He, ICDE 2022: the shares of each class
over the clients are one draw from a Dirichlet distribution. With a small concentration, few clients
have most of a class.
"""

import numpy as np
import torch
from torch import Tensor

from cemlib.config.federated import Federated
from cemlib.data.errors import DataError
from cemlib.data.prepared import Prepared, Split
from cemlib.federated.network import FederatedNet, build
from cemlib.numerics.seeds import derive

ATTEMPTS = 1000


def clients_of(study: Federated, data: Prepared, seed: int) -> list[Split]:
    """Deal out the training images; return those of every client.

    Raises:
        DataError: if a client would have fewer images than a batch.
    """
    clients, least, draw = study.clients, study.train.batch_size, derive(seed, "federated/split")
    known = data.train.labels.cpu()
    if clients.split == "iid":
        parts = iid(known, clients.number, least, draw)
    else:
        parts = dirichlet(known, clients.number, clients.concentration, least, draw)
    return [Split(data.train.images[part], data.train.labels[part]) for part in parts]


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
    """Deal out the images of labels (N,) in random order, to sizes that differ by at most one.

    Returns:
        For each client the positions of its images.

    Raises:
        DataError: if a client would have fewer than `least` images.
    """
    order = torch.from_numpy(np.random.default_rng(seed).permutation(len(labels)))
    parts = list(order.tensor_split(clients))
    return _checked(parts, least, "use fewer clients or a smaller batch_size")


def dirichlet(
    labels: Tensor, clients: int, concentration: float, least: int, seed: int
) -> list[Tensor]:
    """Deal each class out in shares from a Dirichlet distribution; otherwise like `iid`.

    The shares are drawn anew, up to `ATTEMPTS` times, until every client has `least` images.
    """
    draws = np.random.default_rng(seed)
    for _ in range(ATTEMPTS):
        parts = _dealt(labels, clients, concentration, draws)
        if min(map(len, parts)) >= least:
            break
    advice = "raise clients.concentration, or use fewer clients or a smaller batch_size"
    return _checked(parts, least, advice)


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


def _checked(parts: list[Tensor], least: int, advice: str) -> list[Tensor]:
    smallest = min(map(len, parts))
    if smallest < least:
        raise DataError(
            f"{sum(map(len, parts))} training images for {len(parts)} clients: one would have"
            f" {smallest}, and each needs {least} (a batch); {advice}"
        )
    return parts
