"""The paths of all files of an experiment, as its jobs write and their readers expect them."""

from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any, ClassVar, TypeVar

KNOWLEDGES = ("train_data", "public_data")
TENSORS, DESCRIPTION = "prepared.safetensors", "data.json"  # of the prepared data

_Place = TypeVar("_Place", bound=PurePath)


class _Below:
    """A path of fixed name below its owner's folder `root`, or another folder of its owner."""

    def __init__(self, name: str, folder: str = "root") -> None:
        self.name, self.folder = name, folder

    def __get__(self, instance: Any, _: type) -> Path:
        return Path(getattr(instance, self.folder), self.name)


@dataclass(frozen=True)
class Folder:
    """Files of a result, such as a repeat of collaborative labelling.

    Attributes:
        metrics: Status, scores and provenance.
        history: Learning curve, one line per epoch; empty for a closed-form attack.
        config: The slice of the configuration that a run used.
        per_image: Scores of every image, or the answers about it.
        leaves: Those of the attributes that a finished result has, in its job's order.
    """

    leaves: ClassVar[tuple[str, ...]] = ("config", "history", "per_image", "metrics")

    root: Path
    metrics = _Below("metrics.json")
    history = _Below("history.jsonl")
    config = _Below("config.json")
    per_image = _Below("per_image.parquet")

    def files(self) -> tuple[Path, ...]:
        """Return the files of a finished result."""
        return tuple(getattr(self, name) for name in self.leaves)


@dataclass(frozen=True)
class AttackFolder(Folder):
    """Files of one attack with one kind of knowledge on one run.

    Attributes:
        reconstructions: Picture of originals above their reconstructions.
        extremes: The same picture of the least and the most protected images.
    """

    attacker = _Below("attacker.safetensors")
    reconstructions = _Below("reconstructions.png")
    extremes = _Below("extremes.png")
    leaves = ("attacker", "history", "metrics", "per_image", "reconstructions", "extremes")


@dataclass(frozen=True)
class RunFolder(Folder):
    """Files of one trained classifier; `model` has the weights of the split model as deployed."""

    model = _Below("model.safetensors")
    leaves = ("model", "config", "history", "metrics")

    def attack(self, attack: str, knowledge: str) -> AttackFolder:
        """Return the folder of one attack on this run."""
        return AttackFolder(self.root / "attacks" / f"{attack}-{knowledge}")


@dataclass(frozen=True)
class GansFolder(Folder):
    """Files of the GANs of a federation's clients, of one seed; `generators` are stacked.

    The `course` has images generated from fixed noise at some epochs.
    """

    generators = _Below("generators.safetensors")
    course = _Below("course.safetensors")
    leaves = ("generators", "course", "history", "metrics")


@dataclass(frozen=True)
class Layout:
    """The result folder of one experiment.

    Attributes:
        config: The whole configuration with its defaults, as the workflow's jobs read it.
        prepared: The prepared images, labels and splits.
        prepared_facts: Classes, statistics, counts and checksum of the prepared data.
        part: Folder below `root` that its report goes to; empty for `root` itself.
        cost: Measured cost of the cryptography of collaborative labelling.
    """

    root: Path
    part: str = ""
    config = _Below("config.json")
    data = _Below("data")
    prepared = _Below(f"data/{TENSORS}")
    prepared_facts = _Below(f"data/{DESCRIPTION}")
    cost = _Below("cost/metrics.json")
    tables = _Below("tables", "written")
    figures = _Below("figures", "written")
    logs = _Below("logs")

    @property
    def written(self) -> Path:
        """Return the folder of the results page, tables and figures."""
        return self.root / self.part

    @property
    def judge(self) -> RunFolder:
        """Return the folder of the undefended classifier that recognises reconstructions."""
        return RunFolder(self.root / "judge")

    def tracked(self, defence: str = "all") -> Path:
        """Return the file that exists once a study, or one defence, has been uploaded to MLflow."""
        return self.root / "tracked" / defence

    def run(self, defence: str, seed: int | str) -> RunFolder:
        """Return the folder of one run; both names may be wildcards of Snakemake."""
        return RunFolder(self.root / "runs" / defence / f"seed{seed}")

    def repeat(self, images: int, repeat: int | str) -> Folder:
        """Return the folder of one repeat of labelling with one number of images."""
        return Folder(self.run(f"images{images}", repeat).root)

    def gans(self, seed: int | str) -> GansFolder:
        """Return the folder of the GANs of a federation's clients, of one seed."""
        return GansFolder(self.root / "gans" / f"seed{seed}")

    def checkpoint(self, job: str) -> Path:
        """Return the folder of a job's resume checkpoint, which Snakemake does not clear."""
        return self.root.parent / ".checkpoints" / job


def run_of(place: _Place) -> _Place:
    """Return the folder of the run that an attack was made on; for any other folder, itself."""
    return place.parents[1] if place.parent.name == "attacks" else place


def identity(place: Path) -> dict[str, str]:
    """Return a result folder's kind, defence, seed (not the judge's), attack and knowledge."""
    if (run := run_of(place)) == place:
        name, seed, number = place.name.partition("seed")
        return {"kind": "run"} | (
            {"defence": place.parent.name, "seed": number} if seed else {"defence": name}
        )
    attack, _, knowledge = place.name.rpartition("-")
    return {**identity(run), "kind": "attack", "attack": attack, "knowledge": knowledge}
