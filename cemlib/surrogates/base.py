"""The base classes of the surrogates of conditional entropy."""

from typing import ClassVar, TypedDict, Unpack

import torch
from torch import Tensor, nn

from cemlib.config.surrogates import Clustering, Gmm, SurrogateConfig
from cemlib.numerics.sums import Sums

BLEND = 10.0  # one sample of a batch counts as this many of the fit
LARGEST_BLEND = 0.99


class Sizes(TypedDict):
    """The number of dimensions D and of classes C, and the sigma of the release noise."""

    dim: int
    num_classes: int
    noise_std: float


class Surrogate(nn.Module):
    """A penalty on the spread of features within classes, measured against the release noise.

    It is minimised: it falls when the features of a class move together. `settings` is its section
    of the configuration.
    """

    settings: SurrogateConfig

    start_epoch: ClassVar[int] = 1
    """First epoch, counted from 1, at which the penalty is active."""

    refit: int = 0
    """Number of epochs from one `fit` to the next, or 0 for a surrogate that is not fitted."""

    metric: ClassVar[str | None] = None
    """Key in `cemlib.training.metrics.METRICS` of what `learn` gets; None if it needs nothing."""

    metric_samples: int = 0
    """Number of training images from which that metric is computed."""

    def __init__(self, settings: SurrogateConfig, **sizes: Unpack[Sizes]) -> None:
        super().__init__()
        self.settings, self.dim = settings, sizes["dim"]
        self.num_classes, self.noise_std = sizes["num_classes"], sizes["noise_std"]
        self._last: dict[str, Tensor] = {}
        self._sums = Sums()

    def forward(self, z: Tensor, y: Tensor) -> Tensor:
        """Return the scalar penalty of clean features z (B, D) with labels y (B,) in [0, C).

        It is 0, with a gradient of 0 in z, if it applies to no sample. Half precision is computed
        in float32, autocast or not.

        Raises:
            ValueError: if the shapes do not fit, or `penalty` returns what training cannot use.
        """
        self._check(z, y)
        if z.dtype in (torch.float16, torch.bfloat16):
            z = z.float()
        with torch.autocast(z.device.type, enabled=False):
            found = self.penalty(z, y)
        self._check_penalty(found, z)
        value, notes = found
        self._last = {"value": value.detach(), **notes}
        counters = {"idle": notes["classes"] == 0, "hinged": notes["active"] > 0}
        self._sums.add(self._last | counters)
        return value

    def penalty(self, z: Tensor, y: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the scalar penalty and detached scalars to log (docs/extending.md)."""
        raise NotImplementedError

    def fit_is_due(self, epoch: int) -> bool:
        """Return whether `fit` is called at the end of an epoch, counted from 1."""
        return self.refit > 0 and (epoch - 1) % self.refit == 0

    def fit(self, z: Tensor, y: Tensor) -> None:
        """Fit to the features (N, D) and labels (N,) of the training set, at an epoch's end."""

    def learn(self, metric: Tensor) -> None:
        """Use a new metric (D, D), at the start of an epoch."""

    def reseed(self, seed: int) -> None:
        """Restart the surrogate's own random stream, at the start of an epoch."""
        for part in self._parts():
            part.reseed(seed)

    def forget(self) -> None:
        """Forget statistics of features that the client computes no longer, since it was pruned."""
        for part in self._parts():
            part.forget()

    def log(self) -> dict[str, float]:
        """Return the value and the logged scalars of the last batch."""
        return {name: float(note) for name, note in self._last.items()}

    def drain(self) -> dict[str, float]:
        """Return the means of the logged scalars over the batches since the last call, if any.

        docs/surrogates/README.md explains `steps`, `idle_steps` and `active_steps`.
        """
        sums, steps = self._sums.take()
        idle, hinged = sums.pop("idle", 0.0), sums.pop("hinged", 0.0)
        means = {name: total / steps for name, total in sums.items()}
        counters = {"steps": steps, "idle_steps": idle}
        return means | counters | {"active_steps": hinged / steps} if steps else {}

    @property
    def replayable(self) -> bool:
        """Return whether the next call runs the same kernels as the last one."""
        return all(part.replayable for part in self._parts())

    def replayed(self) -> None:
        """Count a call that was replayed as a CUDA graph, without its Python code."""
        for part in self._parts():
            part.replayed()

    def generators(self) -> list[torch.Generator]:
        """Return the random generators that the penalty draws from."""
        return [generator for part in self._parts() for generator in part.generators()]

    def _parts(self) -> list["Surrogate"]:
        """Return the surrogates that this one contains."""
        return [module for module in self.children() if isinstance(module, Surrogate)]

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

    def _check_penalty(self, found: object, z: Tensor) -> None:
        name = f"{type(self).__module__}.{type(self).__name__}.penalty"
        match found:
            case (Tensor(ndim=0) as value, dict() as notes) if {"classes", "active"} <= {*notes}:
                fits = all(isinstance(note, Tensor) and note.ndim == 0 for note in notes.values())
            case _:
                fits = False
        if not fits:
            raise ValueError(
                f"{name} returned {_described(found)}; return the penalty, a scalar tensor, and a"
                " dict of scalar tensors to log, 'classes' and 'active' among them"
            )
        if torch.is_grad_enabled() and z.requires_grad and not value.requires_grad:
            raise ValueError(
                f"{name} returned a penalty without a gradient, so it would not act; compute it"
                " from z without detach, no_grad or argmax, and where it applies to no sample"
                " return 0 * z.sum()"
            )


def _described(found: object) -> str:
    match found:
        case Tensor():
            return f"a tensor of shape {tuple(found.shape)}"
        case tuple():
            return f"({', '.join(map(_described, found))})"
        case dict():
            return f"{{{', '.join(f'{key!r}: {_described(each)}' for key, each in found.items())}}}"
        case _:
            return type(found).__name__


class Fitted(Surrogate):
    """A surrogate with statistics of the whole training set; it is 0 before the first `fit`.

    The statistics are buffers of type `dtype`, which a checkpoint restores bit for bit; `spread` is
    the shape of a cluster's stored variances.
    """

    start_epoch: ClassVar[int] = 2
    refit = 1

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
        self.clusters, self.refit, self._seed = settings.clusters, settings.refit, 0
        rows = torch.zeros(self.num_classes, self.clusters, dtype=dtype)
        self.register_buffer("means", rows.new_zeros(*rows.shape, self.dim))
        self.register_buffer("weights", rows)
        self.register_buffer("variances", rows.new_zeros(*rows.shape, *spread))
        self.register_buffer("num_train", torch.tensor(0))

    def blend(self, members: Tensor, weights: Tensor) -> Tensor:
        """Return the weight of a batch's variance, a = 10 n / (pi N / C), or 0.99 where a >= 1.

        n are the members of each cluster in the batch, and pi the stored weights, of one shape.
        """
        class_size = self.num_train.to(torch.float64) / self.num_classes
        wanted, stored = BLEND * members, weights * class_size
        return torch.where(wanted < stored, wanted / stored, LARGEST_BLEND)

    def fit(self, z: Tensor, y: Tensor) -> None:
        """Fit the statistics to features (N, D) with labels (N,)."""
        self._check(z, y)
        generator = torch.Generator().manual_seed(self._seed)
        device = self.means.device
        with torch.no_grad(), torch.autocast(device.type, enabled=False):
            self._fit(z.to(device), y.to(device), generator)
        self.num_train.fill_(len(y))

    def _fit(self, z: Tensor, y: Tensor, generator: torch.Generator) -> None:
        raise NotImplementedError

    def forget(self) -> None:
        """Start from k-means++ in the next fit."""
        self.weights.zero_()

    def reseed(self, seed: int) -> None:
        """Set the seed of k-means++, from which classes without clusters start."""
        self._seed = seed

    @torch.no_grad()
    def load_statistics(self, means: Tensor, weights: Tensor, variances: Tensor) -> None:
        """Use means (C, K, D), weights (C, K) and variances (C, K) or (C, K, D).

        Variances are averaged over the dimensions, or repeated, to the form that is stored. While
        `num_train` is 0, a batch's own variance has the weight 0.99 beside them.

        Raises:
            ValueError: if they have other shapes.
        """
        full, short = self.means.shape, self.weights.shape
        found = means.shape, weights.shape, variances.shape
        if found not in ((full, short, full), (full, short, short)):
            shapes = f"{tuple(full)}, {tuple(short)}, and {tuple(full)} or {tuple(short)}"
            raise ValueError(
                f"means, weights, variances: found {[*map(tuple, found)]}, expected {shapes}"
            )
        if variances.ndim > self.variances.ndim:
            variances = variances.mean(-1)
        elif variances.ndim < self.variances.ndim:
            variances = variances.unsqueeze(-1)
        self.means.copy_(means)
        self.weights.copy_(weights)
        self.variances.copy_(variances)
