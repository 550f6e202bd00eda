"""What surrogates cost: each step's penalty beside the training step, and the epoch-end fits."""

from typing import Any

import torch
from torch import Tensor

from cemlib.bench.floor import floor_ms, flops
from cemlib.bench.ours import undefended_ms
from cemlib.bench.reference import Statistics, plain_penalty
from cemlib.bench.scale import CLASSES, CLUSTERS, NOISE_STD, Scale
from cemlib.bench.subject import feature_dim, features
from cemlib.bench.timing import Call, Work, compared, side_by_side, timed
from cemlib.surrogates import SURROGATES, Surrogate
from cemlib.surrogates import build as build_surrogate

VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: (name, {}) for name in SURROGATES},
    "gmm, full covariance": ("gmm", {"covariance": "full"}),
}
LOOP = "Python loops over classes and clusters"
FITTER = "scikit-learn, class by class, in float32; ours fits gmm in float64"
NO_LOOP = "the field's code has no such surrogate"
FITTED_ON = 2_000  # features that the penalties' statistics are of
FEWEST_REPEATS = 3


def surrogates(scale: Scale) -> dict[str, Any]:
    """Forward and backward pass of every surrogate, its own parameters included.

    `share_of_step` is its time over that of a training step without a surrogate.
    """
    torch.set_num_threads(scale.threads)
    dim, step = feature_dim(scale), undefended_ms(scale)
    found = {label: _penalty(*variant, dim, scale) for label, variant in VARIANTS.items()}
    for each in found.values():
        each["share_of_step"] = each["ours"]["milliseconds"] / step
    return {"step_milliseconds": step, "dim": dim, "penalties": found}


def fits(scale: Scale) -> dict[str, Any]:
    """The first fit, from its own starting points, and the next one, from the last.

    Full covariances take minutes and are left out. `share_of_epoch` is the first fit's over the
    training steps of an epoch.
    """
    torch.set_num_threads(scale.threads)
    dim = feature_dim(scale)
    epoch = undefended_ms(scale) * scale.samples / scale.batch
    z, y = features(scale.samples, dim, scale.device)
    found = {name: _fit(name, z, y, scale) for name in SURROGATES if SURROGATES[name].fits}
    for each in found.values():
        each["share_of_epoch"] = each["ours"]["milliseconds"] / epoch
    return {"samples": scale.samples, "dim": dim, "fits": found}


def penalty_work(
    name: str, options: dict[str, Any], scale: Scale, dim: int, classes: int = CLASSES
) -> Work:
    """A surrogate's forward and backward passes on batches of features, counted.

    What a surrogate does only every so many steps is part of what a step costs.
    """
    surrogate = _built(name, options, dim, classes, scale.device)
    if surrogate.fits:
        surrogate.fit(*features(FITTED_ON, dim, scale.device, classes))
    z, y = _batch(scale, dim, classes)
    period: int = getattr(surrogate, "refresh", 1)

    def steps() -> None:
        for _ in range(period):
            surrogate.zero_grad()
            surrogate(z.clone().requires_grad_(), y).backward()

    return Work(steps, period)


def fit_call(
    name: str, options: dict[str, Any], z: Tensor, y: Tensor, classes: int = CLASSES
) -> Call:
    """A first fit, of a new surrogate at every call."""

    def fit() -> None:
        _built(name, options, z.shape[1], classes, z.device.type).fit(z, y)

    return fit


def scikit_learn(name: str, z: Tensor, y: Tensor) -> Call:
    """The fit of scikit-learn on the same features, class by class, on as many threads."""
    from sklearn.cluster import KMeans
    from sklearn.mixture import GaussianMixture
    from threadpoolctl import threadpool_limits

    parts = [z[y == label].cpu().numpy() for label in range(CLASSES)]
    once: dict[str, Any] = {"n_init": 1, "random_state": 0}
    models = {
        "clustering": KMeans(CLUSTERS, max_iter=50, **once),
        "gmm": GaussianMixture(CLUSTERS, covariance_type="diag", max_iter=20, **once),
    }

    def fit() -> None:
        with threadpool_limits(torch.get_num_threads()):
            for part in parts:
                models[name].fit(part)

    return fit


def _penalty(name: str, options: dict[str, Any], dim: int, scale: Scale) -> dict[str, Any]:
    work = penalty_work(name, options, scale, dim)
    plain = _plain_penalty(dim, scale) if name == "clustering" else None
    repeats = max(min(scale.repeats, FEWEST_REPEATS), scale.repeats // work.count)
    ours, reference = side_by_side(work, plain, repeats, scale.device)
    floor = floor_ms(flops(work.run) / work.count, scale.device, scale.threads)
    return compared(ours, reference, NO_LOOP if plain is None else LOOP, floor)


def _plain_penalty(dim: int, scale: Scale) -> Work:
    surrogate = _built("clustering", {}, dim, CLASSES, scale.device)
    surrogate.fit(*features(FITTED_ON, dim, scale.device))
    statistics = Statistics(**surrogate.statistics(), samples=FITTED_ON)
    z, y = _batch(scale, dim, CLASSES)

    def step() -> None:
        plain_penalty(z.clone().requires_grad_(), y, statistics).backward()  # type: ignore[no-untyped-call]

    return Work(step)


def _fit(name: str, z: Tensor, y: Tensor, scale: Scale) -> dict[str, Any]:
    """The first fit against scikit-learn's, and the next one."""
    device, first = scale.device, Work(fit_call(name, {}, z, y))
    plain = Work(scikit_learn(name, z, y))
    ours, reference = side_by_side(first, plain, FEWEST_REPEATS, device, warm_up=False)
    floor = floor_ms(flops(first.run), device, scale.threads)
    surrogate = _built(name, {}, z.shape[1], CLASSES, device)
    surrogate.fit(z, y)
    warm = timed(lambda: surrogate.fit(z, y), FEWEST_REPEATS, device, warm_up=False)
    return compared(ours, reference, FITTER, floor) | {"warm": warm}


def _batch(scale: Scale, dim: int, classes: int) -> tuple[Tensor, Tensor]:
    """Features and random labels of a batch."""
    z, _ = features(scale.batch, dim, scale.device, classes)
    generator = torch.Generator().manual_seed(2)
    return z, torch.randint(classes, (scale.batch,), generator=generator).to(scale.device)


def _built(name: str, options: dict[str, Any], dim: int, classes: int, device: str) -> Surrogate:
    surrogate = build_surrogate(name, dim=dim, num_classes=classes, noise_std=NOISE_STD, **options)
    return surrogate.to(device)
