"""What is measured, and how much of it; nothing here imports torch."""

from dataclasses import dataclass

PARTS = (
    "training",
    "surrogates",
    "fits",
    "client",
    "attack",
    "metrics",
    "preparation",
    "start_up",
    "scaling",
)
CLASSES, CLUSTERS, NOISE_STD = 10, 5, 0.025  # of the published study


@dataclass(frozen=True)
class Scale:
    """The amounts; the defaults are the published study in samples small enough for a CPU.

    Attributes:
        network: Key of `cemlib.models.MODELS`.
        cut: Layer entries on the client.
        image_size: Side of the square images.
        channels: Their colour channels.
        batch: Images of a training step.
        attack_batch: Images of an attacker's step.
        samples: Training images of the study: rows of an epoch-end fit, images of an epoch.
        steps: Steps of one timed pass of a training or an attack.
        passes: Timed passes of each.
        repeats: Timed calls of whatever is shorter.
        images: Images that metrics are computed of, and files that are prepared.
        threads: Threads on the CPU, of ours and of the references.
        workers: Loader processes of the references' loops.
        processes: Trainings that are measured at once; None = one a core.
        device: `cpu` or `cuda`.
        sizes: Numbers of samples N along which the cost of a fit is measured.
        class_counts: Numbers of classes C along which the cost of surrogates is measured.
        cluster_counts: Numbers of clusters per class K.
        dims: Numbers of feature dimensions D.
        patience: Seconds; a line of growing cost ends after the first point that took longer.
    """

    network: str = "vgg11"
    cut: int = 4
    image_size: int = 32
    channels: int = 3
    batch: int = 128
    attack_batch: int = 256
    samples: int = 50_000
    steps: int = 2
    passes: int = 3
    repeats: int = 15
    images: int = 2_000
    threads: int = 1
    workers: int = 2
    processes: int | None = None
    device: str = "cpu"
    sizes: tuple[int, ...] = (1_000, 3_000, 10_000, 25_000, 50_000)
    class_counts: tuple[int, ...] = (10, 20, 50, 100, 200)
    cluster_counts: tuple[int, ...] = (1, 2, 4, 8, 16, 32)
    dims: tuple[int, ...] = (128, 256, 512, 1_024, 2_048)
    patience: float = 8.0
