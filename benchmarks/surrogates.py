"""Time surrogates beside the training step, and the epoch-end fits beside scikit-learn."""

from collections.abc import Iterator
from functools import partial
from typing import Any

from sklearn.cluster import KMeans
from sklearn.mixture import GaussianMixture
from threadpoolctl import threadpool_limits
from torch import Tensor

from benchmarks import plain
from benchmarks.measure import Call, Row, compare, flops, measured
from benchmarks.setting import CLASSES, CLUSTERS, NOISE_STD, Scale, feature_dim, features
from benchmarks.training import warm_pass
from cemlib.surrogates import SURROGATES, Surrogate, build

VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: (name, {}) for name in SURROGATES},
    "gmm, full covariance": ("gmm", {"covariance": "full"}),
}
FITTED_ON = 2_000  # features to which surrogates are fitted before their penalty is timed
ONCE: dict[str, Any] = {"n_init": 1, "random_state": 0}
MODELS = {
    "clustering": KMeans(CLUSTERS, max_iter=50, **ONCE),
    "gmm": GaussianMixture(CLUSTERS, covariance_type="diag", max_iter=20, **ONCE),
}


def surrogates(scale: Scale) -> Iterator[Row]:
    """Time forward and backward passes of every surrogate; `share` is of a step without one."""
    whole = step_ms(scale)
    z, y = features(scale.batch, feature_dim(scale), scale.device)
    for label, (name, options) in VARIANTS.items():
        surrogate = built(name, z, **options)
        if surrogate.refit:
            surrogate.fit(*features(FITTED_ON, z.shape[1], scale.device, seed=2))
        reference = _loop(surrogate, z, y) if label == "clustering" else None
        count: int = getattr(surrogate.settings, "refresh", 1)  # steps until all was done once
        ours = _steps(surrogate, z, y, count)
        ours()
        surrogate.reseed(0)  # as in a later epoch: young moments are factorised more often
        operations = flops(ours) / count
        found = compare(label, ours, scale, reference=reference, operations=operations, count=count)
        yield found | {"share": found["ours_ms"] / whole}


def fits(scale: Scale) -> Iterator[Row]:
    """Time a first fit, and the next one from its result; `share` is of the epoch's steps.

    Full covariances would take minutes. scikit-learn fits in float32, ours in float64 where needed.
    """
    epoch = step_ms(scale) * scale.samples / scale.batch
    z, y = features(scale.samples, feature_dim(scale), scale.device)
    for name, model in MODELS.items():
        first, fitted = partial(_first_fit, name, z, y), _first_fit(name, z, y)
        reference = _scikit_learn(model, z, y, scale.threads)
        found = compare(name, first, scale, reference=reference, operations=flops(first))
        yield found | {"share": found["ours_ms"] / epoch}
        yield compare(f"{name}, next fit", partial(fitted.fit, z, y), scale)


def step_ms(scale: Scale) -> float:
    """Return the milliseconds of our training step without a surrogate."""
    (found,) = measured([warm_pass(scale, "noise")], scale)
    return 1e3 * float(found.median) / scale.steps


def built(name: str, z: Tensor, **options: Any) -> Surrogate:
    """Return a new surrogate for features (N, D), on their device."""
    sizes = {"dim": z.shape[1], "num_classes": CLASSES}
    return build(name, noise_std=NOISE_STD, **sizes, **options).to(z.device)


def _first_fit(name: str, z: Tensor, y: Tensor) -> Surrogate:
    surrogate = built(name, z)
    surrogate.fit(z, y)
    return surrogate


def _steps(surrogate: Surrogate, z: Tensor, y: Tensor, count: int) -> Call:
    def steps() -> None:
        for _ in range(count):
            surrogate.zero_grad()
            surrogate(z.clone().requires_grad_(), y).backward()

    return steps


def _loop(surrogate: Surrogate, z: Tensor, y: Tensor) -> Call:
    """Return the field's clustering penalty, by Python loops over classes and clusters."""
    fitted = {name: getattr(surrogate, name) for name in ("means", "weights", "variances")}
    found = plain.Statistics(**fitted, samples=FITTED_ON)
    return lambda: plain.penalty(z.clone().requires_grad_(), y, found).backward()  # type: ignore[no-untyped-call]


def _scikit_learn(model: Any, z: Tensor, y: Tensor, threads: int) -> Call:
    """Return the fit of scikit-learn to the same features, class by class."""
    parts = [z[y == label].cpu().numpy() for label in range(CLASSES)]

    def fit() -> None:
        with threadpool_limits(threads):
            for part in parts:
                model.fit(part)

    return fit
