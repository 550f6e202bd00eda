"""What the surrogates cost beside the training that they defend.

Measured with ten classes on the published split of VGG11 at 32x32 (512 features, batches of 128),
or on a study's own network: the forward and backward pass of every surrogate, against the training
step without one, the fit at an epoch's end, against the epoch and against scikit-learn, and the
client's forward pass before and after half of its channels are pruned.
"""

import copy
import ctypes
import math
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from cemlib.config.study import PRUNABLE
from cemlib.defences.pruning import client_cost, prune
from cemlib.models import SplitModel
from cemlib.models import build as build_model
from cemlib.optim import SGD
from cemlib.provenance import device_name, git_state
from cemlib.surrogates import SURROGATES, Surrogate
from cemlib.surrogates import build as build_surrogate

CLASSES, NOISE_STD, CLUSTERS = 10, 0.025, 5
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: (name, {}) for name in SURROGATES},
    "gmm, full covariance": ("gmm", {"covariance": "full"}),
}
_STATUS, _RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


@dataclass(frozen=True)
class Scale:
    """What is measured, and how much of it."""

    network: str = "vgg11"
    cut: int = 4
    image_size: int = 32
    channels: int = 3
    batch: int = 128
    samples: int = 50_000
    repeats: int = 15
    threads: int = 1
    device: str = "cpu"


def bench(scale: Scale) -> dict[str, Any]:
    """All figures by name, as plain numbers: milliseconds, seconds, MiB and shares.

    Memory on the CPU is measured where Linux and the GNU C library tell it, and null elsewhere.
    """
    torch.set_num_threads(scale.threads)
    torch.manual_seed(0)
    model = _model(scale)
    step = _train_step(model, scale)
    epoch = step["milliseconds"] / 1e3 * scale.samples / scale.batch
    dim = math.prod(model.feature_shape)
    surrogates = {
        label: _surrogate_step(name, options, dim, scale, step["milliseconds"])
        for label, (name, options) in VARIANTS.items()
    }
    z, y = _features(scale.samples, dim, scale.device)
    fits = {
        label: _fit(name, options, z, y, epoch)
        for label, (name, options) in VARIANTS.items()
        if SURROGATES[name].fits and not options  # full covariances take minutes
    }
    return {
        "machine": _machine(scale),
        "scale": asdict(scale) | {"dim": dim, "classes": CLASSES},
        "train_step": step | {"epoch_seconds": epoch},
        "surrogates": surrogates,
        "fits": fits,
        "scikit_learn": _scikit_learn(z.cpu(), y.cpu()),
        "client": _client(model, scale),
    }


def table(figures: dict[str, Any]) -> str:
    """The figures of `bench` as a Markdown table."""
    step, epoch = figures["train_step"]["milliseconds"], figures["train_step"]["epoch_seconds"]
    lines = [
        f"training step without a surrogate: {step:.0f} ms; epoch: {epoch:.0f} s; K-means of",
        f"scikit-learn: {figures['scikit_learn']['kmeans_seconds']:.1f} s",
        "",
        "| surrogate | step [ms] | of the step | memory [MiB] | first fit [s] | of the epoch |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for label, found in figures["surrogates"].items():
        fit = figures["fits"].get(label)
        fitted = ("", "")
        if fit:
            fitted = (f"{fit['first_seconds']:.1f}", f"{fit['first_share_of_epoch']:.1%}")
        cost = (f"{found['milliseconds']:.1f}", f"{found['share_of_step']:.1%}")
        memory = found["peak_memory_mib"]
        row = (label, *cost, "" if memory is None else f"{memory:.0f}", *fitted)
        lines.append(f"| {' | '.join(row)} |")
    client = figures["client"]
    lines += [
        "",
        "| client | parameters | MFLOP an image | batch [ms] |",
        "| --- | ---: | ---: | ---: |",
    ]
    for label, found in client.items():
        flops = f"{found['flops'] / 1e6:.1f}"
        lines.append(
            f"| {label} | {found['parameters']:,.0f} | {flops} | {found['milliseconds']:.1f} |"
        )
    return "\n".join(lines)


def _machine(scale: Scale) -> dict[str, Any]:
    return {
        "device": device_name(scale.device),
        "threads": scale.threads,
        "torch": torch.__version__,
        "python": platform.python_version(),
        **git_state(),
    }


def _model(scale: Scale) -> SplitModel:
    """The undefended split network."""
    mean, std = (0.5,) * scale.channels, (0.25,) * scale.channels
    model = build_model(
        scale.network,
        num_classes=CLASSES,
        image_size=scale.image_size,
        cut=scale.cut,
        mean=mean,
        std=std,
    )
    return model.to(scale.device).to(memory_format=torch.channels_last)


def _train_step(model: SplitModel, scale: Scale) -> dict[str, Any]:
    """One update of the network on random images."""
    optimiser = SGD(model.parameters(), momentum=0.9, weight_decay=5e-4)
    shape = (scale.batch, scale.channels, scale.image_size, scale.image_size)
    images = torch.rand(shape, device=scale.device)
    images = images.contiguous(memory_format=torch.channels_last)
    labels = torch.arange(scale.batch, device=scale.device) % CLASSES

    def step() -> None:
        optimiser.zero_grad()
        loss = F.cross_entropy(model(images), labels)
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step(0.01)

    return _timed(step, max(3, scale.repeats // 3), scale.device)


def _client(model: SplitModel, scale: Scale) -> dict[str, Any]:
    """Size and forward pass of the client, whole and pruned; only stacks can be pruned."""
    clients = {"whole": model}
    if scale.network in PRUNABLE:
        clients["pruned by half"] = copy.deepcopy(model)
        prune(clients["pruned by half"], 0.5)
    return {name: _client_pass(client, scale) for name, client in clients.items()}


def _client_pass(model: SplitModel, scale: Scale) -> dict[str, Any]:
    shape = (scale.channels, scale.image_size, scale.image_size)
    encoder, images = model.encoder.eval(), torch.rand((scale.batch, *shape), device=scale.device)
    images = images.contiguous(memory_format=torch.channels_last)
    with torch.no_grad():
        return _timed(lambda: encoder(images), scale.repeats, scale.device) | client_cost(
            model, shape
        )


def _surrogate_step(
    name: str, options: dict[str, Any], dim: int, scale: Scale, step_ms: float
) -> dict[str, Any]:
    """Forward and backward pass of a surrogate, its own parameters included."""
    surrogate = _built(name, dim, scale.device, options)
    if surrogate.fits:
        surrogate.fit(*_features(2000, dim, scale.device))
    z, _ = _features(scale.batch, dim, scale.device)
    y = torch.randint(CLASSES, (scale.batch,), device=scale.device)

    # What a surrogate does only every so many steps is part of what a step costs.
    period: int = getattr(surrogate, "refresh", 1)

    def steps() -> None:
        for _ in range(period):
            surrogate.zero_grad()
            surrogate(z.clone().requires_grad_(), y).backward()

    figures = _timed(steps, max(1, scale.repeats // period), scale.device)
    for figure in ("milliseconds", "fastest", "slowest"):
        figures[figure] /= period
    return figures | {"share_of_step": figures["milliseconds"] / step_ms}


def _fit(name: str, options: dict[str, Any], z: Tensor, y: Tensor, epoch: float) -> dict[str, Any]:
    """The first fit, from its own starting points, and the next one, from the last."""
    surrogate = _built(name, z.shape[1], z.device.type, options)
    first = _timed(lambda: surrogate.fit(z, y), 1, z.device.type, warm_up=False)
    warm = _timed(lambda: surrogate.fit(z, y), 1, z.device.type, warm_up=False)
    seconds = first["milliseconds"] / 1e3
    return {
        "first_seconds": seconds,
        "warm_seconds": warm["milliseconds"] / 1e3,
        "first_share_of_epoch": seconds / epoch,
        "peak_memory_mib": first["peak_memory_mib"],
    }


def _scikit_learn(z: Tensor, y: Tensor) -> dict[str, Any]:
    """K-means of scikit-learn on the same features, class by class, on as many threads."""
    from sklearn.cluster import KMeans
    from threadpoolctl import threadpool_limits

    parts = [z[y == label].numpy() for label in range(CLASSES)]

    def fit() -> None:
        with threadpool_limits(torch.get_num_threads()):
            for part in parts:
                KMeans(CLUSTERS, n_init=1, max_iter=50, random_state=0).fit(part)

    return {"kmeans_seconds": _timed(fit, 1, "cpu", warm_up=False)["milliseconds"] / 1e3}


def _built(name: str, dim: int, device: str, options: dict[str, Any]) -> Surrogate:
    surrogate = build_surrogate(name, dim=dim, num_classes=CLASSES, noise_std=NOISE_STD, **options)
    return surrogate.to(device)


def _features(samples: int, dim: int, device: str) -> tuple[Tensor, Tensor]:
    """Features in (0, 1) of classes with five clusters each, as a sigmoid cut releases them."""
    generator = torch.Generator().manual_seed(1)
    y = torch.arange(samples) % CLASSES
    centres = torch.randn(CLASSES, CLUSTERS, dim, generator=generator)
    cluster = torch.randint(CLUSTERS, (samples,), generator=generator)
    z = centres[y, cluster] + 0.5 * torch.randn(samples, dim, generator=generator)
    return z.sigmoid().to(device), y.to(device)


def _timed(
    run: Callable[[], object], repeats: int, device: str, *, warm_up: bool = True
) -> dict[str, Any]:
    """Median time of a call, and the memory that its first call needed beyond what was there."""
    seconds = []
    before = _memory_mib(device)
    if warm_up:
        run()
        _wait(device)
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        _wait(device)
        seconds.append(time.perf_counter() - start)
    peak = _grown(before, _memory_mib(device, peak=True))
    spread = {"fastest": min(seconds) * 1e3, "slowest": max(seconds) * 1e3}
    return {"milliseconds": statistics.median(seconds) * 1e3, **spread, "peak_memory_mib": peak}


def _grown(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None else after - before


def _wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def _memory_mib(device: str, *, peak: bool = False) -> float | None:
    """Memory in use, or its highest since the last call for the former; None where unknown."""
    if device == "cuda":
        if not peak:
            torch.cuda.reset_peak_memory_stats()
        return torch.cuda.max_memory_allocated() / 2**20
    library = ctypes.CDLL(None)
    if not (_RESET.exists() and hasattr(library, "malloc_trim")):
        return None
    if not peak:
        library.malloc_trim(0)  # what was freed before must not pass for unused
        _RESET.write_text("5")  # starts the kernel's high-water mark anew
    name = "VmHWM:" if peak else "VmRSS:"
    line = next(line for line in _STATUS.read_text().splitlines() if line.startswith(name))
    return int(line.split()[1]) / 1024
