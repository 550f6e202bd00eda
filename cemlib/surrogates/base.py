"""What every surrogate of conditional entropy has in common, and those with fitted statistics.

A fitted surrogate keeps means, weights and variances of K clusters of each of C classes. In a batch
the variance of a cluster with n members there and stored weight pi is the blend

    v = a v_batch + (1 - a) v_stored,   a = 10 n / (pi N / C), or 0.99 where that is >= 1

with N training images, so that few samples of a batch count as many of the fit.
"""

from typing import ClassVar, TypedDict, Unpack

import torch
from torch import Tensor, nn

from cemlib.config.surrogates import Clustering, Gmm, SurrogateConfig
from cemlib.numerics.sums import Sums

BLEND = 10.0  # a batch member counts as this many of the stored statistics' members
LARGEST_BLEND = 0.99


class Sizes(TypedDict):
    """The sizes of a surrogate: D dimensions, C classes, and the sigma of the released noise."""

    dim: int
    num_classes: int
    noise_std: float


class Surrogate(nn.Module):
    """A penalty on the spread of features within classes, measured against the release noise.

    All surrogates are minimised: they fall when features of a class move together.

    Args:
        settings: its section of the configuration, which says what each option means; None for a
            surrogate that no configuration names.
        sizes: `dim`, `num_classes` and `noise_std`, by name.
    """

    settings: SurrogateConfig | None

    start_epoch: ClassVar[int] = 1
    """First epoch, counted from 1, at which the penalty is active."""

    fits: ClassVar[bool] = False
    """Whether `fit` needs the whole training set's features at the end of every epoch."""

    metric: ClassVar[str | None] = None
    """What `learn` needs at the start of every epoch: `task`, `image`, or nothing."""

    metric_samples: int = 0
    """At how many training images."""

    def __init__(self, settings: SurrogateConfig | None = None, **sizes: Unpack[Sizes]) -> None:
        super().__init__()
        self.settings, self.dim = settings, sizes["dim"]
        self.num_classes, self.noise_std = sizes["num_classes"], sizes["noise_std"]
        self._last: dict[str, Tensor] = {}
        self._sums = Sums()

    def forward(self, z: Tensor, y: Tensor) -> Tensor:
        """Return the penalty of a batch, 0 and attached to the graph of z where nothing applies.

        Args:
            z: clean features, (B, D); half precision is computed in float32, autocast or not.
            y: labels in [0, C), (B,) of integers.

        Raises:
            ValueError: the shapes do not fit.
        """
        self._check(z, y)
        if z.dtype in (torch.float16, torch.bfloat16):
            z = z.float()
        with torch.autocast(z.device.type, enabled=False):
            value, notes = self.penalty(z, y)
        self._note({"value": value.detach(), **notes})
        return value

    def penalty(self, z: Tensor, y: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the scalar penalty and detached scalars worth logging; each surrogate defines it.

        Among the scalars are `classes`, how many classes of the batch the penalty is computed
        from, and `active`, the share of its hinges that are active (1 for one without hinges).
        """
        raise NotImplementedError

    def fit(self, z: Tensor, y: Tensor) -> None:
        """Take the features (N, D) and labels (N,) of the training set, at the end of an epoch."""

    def learn(self, metric: Tensor) -> None:
        """Take the metric (D, D) that `metric` names, at the start of an epoch."""

    def reseed(self, seed: int) -> None:
        """Start the surrogate's own random stream anew; called at the start of every epoch."""

    def statistics(self) -> dict[str, Tensor]:
        """Return the statistics that the penalty uses now, by name; empty where there are none."""
        return {}

    def log(self) -> dict[str, float]:
        """Return the last batch's numbers, read from the device here and not during the step."""
        if not self._last:
            return {}
        numbers = torch.stack([note.to(torch.float64) for note in self._last.values()])
        return dict(zip(self._last, numbers.tolist(), strict=True))

    def drain(self) -> dict[str, float]:
        """Return means over the batches since the last call and three counters; {} without any.

        `steps` is the number of batches, `idle_steps` of those to which the surrogate did not
        apply, and `active_steps` the share of those with an active hinge.
        """
        sums, steps = self._sums.take()
        idle, hinged = sums.pop("idle", 0.0), sums.pop("hinged", 0.0)
        means = {name: total / steps for name, total in sums.items()}
        counters = {"steps": steps, "idle_steps": idle}
        return means | counters | {"active_steps": hinged / steps} if steps else {}

    @property
    def replayable(self) -> bool:
        """Return whether the next call runs the same kernels as the last, for a replay."""
        return True

    def replayed(self) -> None:
        """Count a call that was replayed, of which no Python code ran."""

    def generators(self) -> list[torch.Generator]:
        """Return the random generators that the penalty draws from."""
        return []

    def _note(self, notes: dict[str, Tensor]) -> None:
        """Remember the batch's numbers and add them to the epoch's, on the device."""
        self._last = notes
        self._sums.add({**notes, "idle": notes["classes"] == 0, "hinged": notes["active"] > 0})

    def _check(self, z: Tensor, y: Tensor) -> None:
        if z.ndim != 2 or z.shape[1] != self.dim:
            raise ValueError(
                f"{type(self).__name__}: z has shape {tuple(z.shape)}, "
                f"expected (B, {self.dim}); flatten the features first"
            )
        if y.shape != z.shape[:1] or len(y) == 0:
            raise ValueError(
                f"{type(self).__name__}: y has shape {tuple(y.shape)}, "
                f"expected one label for each of the {len(z)} rows of z, and at least one"
            )


class Fitted(Surrogate):
    """A surrogate with statistics of a whole training set.

    The statistics are buffers, so a restored state continues bit for bit. Before the first `fit`
    all weights are 0 and so is the penalty.

    Args:
        settings: its section of the configuration.
        spread: shape of a cluster's stored variances.
        dtype: floating type of the statistics.
        sizes: those of `Surrogate`.
    """

    start_epoch: ClassVar[int] = 2
    fits = True

    settings: Clustering | Gmm
    means: Tensor
    weights: Tensor
    variances: Tensor
    num_train: Tensor

    def __init__(
        self,
        settings: Clustering | Gmm,
        *,
        spread: tuple[int, ...] = (),
        dtype: torch.dtype = torch.float32,
        **sizes: Unpack[Sizes],
    ) -> None:
        super().__init__(settings, **sizes)
        self.clusters, self._seed = settings.clusters, 0
        rows = torch.zeros(self.num_classes, self.clusters, dtype=dtype)
        self.register_buffer("means", rows.new_zeros(*rows.shape, self.dim))
        self.register_buffer("weights", rows)
        self.register_buffer("variances", rows.new_zeros(*rows.shape, *spread))
        self.register_buffer("num_train", torch.tensor(0))

    def blend(self, members: Tensor, weights: Tensor) -> Tensor:
        """Return the weight `a` of the batch's variance against the stored one.

        Args:
            members: batch members n of each cluster.
            weights: stored weight pi of each cluster, same shape.
        """
        class_size = self.num_train.to(torch.float64) / self.num_classes
        wanted, stored = BLEND * members, weights * class_size
        return torch.where(wanted < stored, wanted / stored, LARGEST_BLEND)

    def fit(self, z: Tensor, y: Tensor) -> None:
        """Take the statistics of features (N, D) with labels (N,)."""
        self._check(z, y)
        generator = torch.Generator().manual_seed(self._seed)
        device = self.means.device
        with torch.no_grad(), torch.autocast(device.type, enabled=False):
            self._fit(z.to(device), y.to(device), generator)
        self.num_train.fill_(len(y))

    def _fit(self, z: Tensor, y: Tensor, generator: torch.Generator) -> None:
        """Fit the buffers; each surrogate defines it."""
        raise NotImplementedError

    def reseed(self, seed: int) -> None:
        """Choose the k-means++ draws of classes that have no clusters yet."""
        self._seed = seed

    def statistics(self) -> dict[str, Tensor]:
        """Return copies of means (C, K, D), weights and mean variances (C, K); 0 before a fit."""
        spread = self.variances if self.variances.ndim == 2 else self.variances.mean(-1)
        found = {"means": self.means, "weights": self.weights, "variances": spread}
        return {name: values.detach().float().clone() for name, values in found.items()}

    def keep(self, means: Tensor, weights: Tensor, variances: Tensor) -> None:
        """Use statistics of the shapes of the buffers."""
        self.means.copy_(means)
        self.weights.copy_(weights)
        self.variances.copy_(variances)


def needs_noise(name: str, noise_std: float) -> None:
    """Refuse a release without noise, where the bound of a surrogate is infinite."""
    if noise_std == 0:
        raise ValueError(
            f"noise_std is 0; {name} needs it above 0: without noise its bound is infinite, "
            "so give the defence noise"
        )
