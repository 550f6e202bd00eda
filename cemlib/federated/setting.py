"""Set up a seed of a study: the clients' images, and the initial weights."""

from collections.abc import Iterable, Sequence

import numpy as np
import torch
from torch import Tensor

from cemlib.config.federated import Federated
from cemlib.data import DataError
from cemlib.data.prepared import Prepared, Split, to_float
from cemlib.federated.network import FederatedNet, build
from cemlib.numerics.seeds import derive

ATTEMPTS = 1000


def clients_of(study: Federated, data: Prepared, seed: int) -> list[Split]:
    """Distribute the training images as `partition` does; return those of every client."""
    clients, train = study.clients, data.train
    concentration = None if clients.split == "iid" else clients.concentration
    least, draw = study.train.batch_size, derive(seed, "federated/split")
    parts = partition(train.labels.cpu(), clients.number, concentration, least, draw)
    return [Split(train.images[part], train.labels[part]) for part in parts]


def batches(clients: Iterable[Split], rows: Iterable[Tensor]) -> tuple[Tensor, Tensor]:
    """Return images in [0, 1] and labels of the same number of rows of each client, stacked."""
    pairs = zip(clients, rows, strict=True)
    taken = [(to_float(own.images[at]), own.labels[at]) for own, at in pairs]
    x, y = (torch.stack(part) for part in zip(*taken, strict=True))
    return x, y


def random_batches(
    clients: Sequence[Split], size: int, draws: Iterable[torch.Generator]
) -> tuple[Tensor, Tensor]:
    """Return a batch of each client's own images and labels, drawn with replacement."""
    pairs = zip(clients, draws, strict=True)
    return batches(clients, [torch.randint(len(c), (size,), generator=d) for c, d in pairs])


def network_of(study: Federated, data: Prepared, seed: int) -> FederatedNet:
    """Build the network with its initial weights, on the CPU."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive(seed, "federated/weights"))
        return build(
            **study.model.plain(), num_classes=len(data.classes), image_shape=data.image_shape
        )


def partition(
    labels: Tensor, clients: int, concentration: float | None, least: int, seed: int
) -> list[Tensor]:
    """Distribute images with labels (N,) among clients; return the positions of each client's.

    Each class is split in shares from a Dirichlet distribution over the clients (Hsu, Qi and Brown,
    "Measuring the effects of non-identical data distribution for federated visual classification",
    2019, in the form of Li, Diao, Chen and He, ICDE 2022), drawn up to `ATTEMPTS` times until every
    client has `least` images. With a small concentration, a few clients have most of a class;
    without one, the parts are random, and their sizes differ by at most one.

    Raises:
        DataError: if a client would have fewer than `least` images.
    """
    draws = np.random.default_rng(seed)
    if concentration is None:
        parts = list(torch.from_numpy(draws.permutation(len(labels))).tensor_split(clients))
        advice = "use fewer clients or a smaller batch_size"
    else:
        for _ in range(ATTEMPTS):
            parts = _dirichlet_partition(labels, clients, concentration, draws)
            if min(map(len, parts)) >= least:
                break
        advice = "raise clients.concentration, or use fewer clients or a smaller batch_size"
    if (smallest := min(map(len, parts))) < least:
        raise DataError(
            f"{len(labels)} training images for {clients} clients: one would have {smallest}, and"
            f" each needs {least} (a batch); {advice}"
        )
    return parts


def _dirichlet_partition(
    labels: Tensor, clients: int, concentration: float, draws: np.random.Generator
) -> list[Tensor]:
    parts: list[list[Tensor]] = [[] for _ in range(clients)]
    for label in range(int(labels.max()) + 1):
        rows = (labels == label).nonzero().flatten()
        rows = rows[torch.from_numpy(draws.permutation(len(rows)))]
        shares = draws.dirichlet([concentration] * clients).cumsum()[:-1]
        cuts = torch.from_numpy((shares * len(rows)).round().astype(np.int64))
        for part, found in zip(parts, rows.tensor_split(cuts), strict=True):
            part.append(found)
    return [torch.cat(part) for part in parts]
