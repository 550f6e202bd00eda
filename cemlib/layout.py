"""Where every file of an experiment lies (the contract between the jobs and their readers)."""

from dataclasses import dataclass
from pathlib import Path

KNOWLEDGES = ("train_data", "public_data")
TENSORS, DESCRIPTION = "prepared.safetensors", "data.json"  # of the prepared data


@dataclass(frozen=True)
class Folder:
    """Files that every finished result has."""

    root: Path

    @property
    def metrics(self) -> Path:
        """How it ended, scores and provenance."""
        return self.root / "metrics.json"

    @property
    def history(self) -> Path:
        """Learning curve, one line per epoch; empty for a closed-form attack."""
        return self.root / "history.jsonl"

    @property
    def config(self) -> Path:
        """The slice of the configuration that a run used."""
        return self.root / "config.json"

    @property
    def per_image(self) -> Path:
        """Scores of every image, or what was answered about it."""
        return self.root / "per_image.parquet"


@dataclass(frozen=True)
class AttackFolder(Folder):
    """Files of one attack with one knowledge on one run."""

    @property
    def attacker(self) -> Path:
        """Parameters of the attacker."""
        return self.root / "attacker.safetensors"

    @property
    def reconstructions(self) -> Path:
        """Strip of originals above their reconstructions."""
        return self.root / "reconstructions.png"

    @property
    def extremes(self) -> Path:
        """Strip of the least and the most protected images above their reconstructions."""
        return self.root / "extremes.png"

    def files(self) -> tuple[Path, ...]:
        """Every file that a finished attack leaves."""
        pictures = (self.reconstructions, self.extremes)
        return (self.attacker, self.history, self.metrics, self.per_image, *pictures)


@dataclass(frozen=True)
class RunFolder(Folder):
    """Files of one trained classifier."""

    @property
    def model(self) -> Path:
        """Weights of the split model as deployed."""
        return self.root / "model.safetensors"

    @property
    def clusters(self) -> Path:
        """Every epoch's fitted clusters, where the surrogate fits any."""
        return self.root / "clusters.safetensors"

    def files(self) -> tuple[Path, ...]:
        """Every file that any finished run leaves."""
        return (self.config, self.model, self.history, self.metrics)

    def attack(self, attack: str, knowledge: str) -> AttackFolder:
        """The folder of one attack on this run."""
        return AttackFolder(self.root / "attacks" / f"{attack}-{knowledge}")


@dataclass(frozen=True)
class RepeatFolder(Folder):
    """Files of one repeat of collaborative labelling with one number of images."""

    def files(self) -> tuple[Path, ...]:
        """Every file of a finished repeat."""
        return (self.config, self.history, self.per_image, self.metrics)


@dataclass(frozen=True)
class PseudoFolder(Folder):
    """Files of the GANs of a federation's clients, of one seed."""

    @property
    def generators(self) -> Path:
        """Every client's generator, stacked."""
        return self.root / "generators.safetensors"

    @property
    def course(self) -> Path:
        """Generated images of fixed noise, of some epochs."""
        return self.root / "course.safetensors"

    def files(self) -> tuple[Path, ...]:
        """Every file that the job leaves."""
        return (self.generators, self.course, self.history, self.metrics)


@dataclass(frozen=True)
class Layout:
    """The result folder of one experiment."""

    root: Path

    @property
    def config(self) -> Path:
        """The whole configuration with its defaults filled in, as the workflow's jobs read it."""
        return self.root / "config.json"

    @property
    def data(self) -> Path:
        """Folder of the prepared data."""
        return self.root / "data"

    @property
    def prepared(self) -> Path:
        """The prepared images, labels and splits."""
        return self.data / TENSORS

    @property
    def prepared_facts(self) -> Path:
        """Classes, statistics, counts and checksum of the prepared data."""
        return self.data / DESCRIPTION

    @property
    def tables(self) -> Path:
        """Folder of the tables."""
        return self.root / "tables"

    @property
    def figures(self) -> Path:
        """Folder of the figures."""
        return self.root / "figures"

    def tracked(self, defence: str = "all") -> Path:
        """Mark that the study, or one defence of it, is in the MLflow store."""
        return self.root / "tracked" / defence

    def run(self, defence: str, seed: int | str) -> RunFolder:
        """The folder of one run; a workflow passes wildcards."""
        return RunFolder(self.root / "runs" / defence / f"seed{seed}")

    def repeat(self, images: int, repeat: int | str) -> RepeatFolder:
        """The folder of one repeat of collaborative labelling with one number of images."""
        return RepeatFolder(self.run(f"images{images}", repeat).root)

    @property
    def cost(self) -> Path:
        """What the cryptography took."""
        return self.root / "cost" / "metrics.json"

    def pseudo(self, seed: int | str) -> PseudoFolder:
        """The folder of the GANs of a federation's clients, of one seed."""
        return PseudoFolder(self.root / "pseudo" / f"seed{seed}")

    @property
    def judge(self) -> RunFolder:
        """The undefended classifier that recognises reconstructions, of no seed of the study."""
        return RunFolder(self.root / "judge")

    def checkpoint(self, job: str) -> Path:
        """Folder of a job's resume checkpoint, outside the outputs that Snakemake clears."""
        return self.root.parent / ".checkpoints" / job
