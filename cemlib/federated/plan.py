"""Where the files of a federated study go, and what decides them; no import of torch."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cemlib.config.federated import Federated, Variant
from cemlib.layout import AttackFolder, RunFolder
from cemlib.provenance import fingerprint, source_files
from cemlib.study.base import FORMATS, StudyPlan, chosen, named

TABLES = ("accuracy", "differences", "privacy", "tradeoff", "cost")
TABLE_FORMATS = ("csv", "md", "tex", "html")
FIGURES = ("accuracy", "tradeoff", "cost", "reconstructions")
PSEUDO_FIGURES = ("pseudo", "convergence")


@dataclass(frozen=True)
class PseudoFolder:
    """Files of the clients' GANs of one seed."""

    root: Path

    @property
    def generators(self) -> Path:
        """Every client's generator, stacked."""
        return self.root / "generators.safetensors"

    @property
    def course(self) -> Path:
        """Generated images of fixed noise, of some epochs."""
        return self.root / "course.safetensors"

    @property
    def history(self) -> Path:
        """Losses, variance and drift, one line per epoch."""
        return self.root / "history.jsonl"

    @property
    def metrics(self) -> Path:
        """How it ended, and provenance."""
        return self.root / "metrics.json"

    def files(self) -> tuple[Path, ...]:
        """Every file that the job leaves."""
        return (self.generators, self.course, self.history, self.metrics)


@dataclass(frozen=True)
class FederatedPlan(StudyPlan[Federated]):
    """Files and dependencies of one federated study."""

    def variants(self, only: str | None = None) -> tuple[str, ...]:
        """Names of the variants in the order of the configuration, or the one asked for.

        Raises:
            ConfigError: if there is no such variant.
        """
        return chosen("variant", tuple(self.study.variants), only)

    def seeds(self, only: int | None = None) -> tuple[int, ...]:
        """Seeds of the study, or the one asked for.

        Raises:
            ConfigError: if there is no such seed.
        """
        return chosen("seed", self.study.seeds, only)

    def run(self, variant: str, seed: int | str) -> RunFolder:
        """The folder of one training; a workflow passes wildcards."""
        return self.layout.run(variant, seed)

    def pseudo(self, seed: int | str) -> PseudoFolder:
        """The folder of the clients' GANs of one seed."""
        return PseudoFolder(self.layout.root / "pseudo" / f"seed{seed}")

    def needs_pseudo(self, variant: str) -> bool:
        """Whether a variant trains on pseudo images."""
        settings: Variant = self.study.variants[variant]
        return settings.mixing is not None

    def pseudo_inputs(self, variant: str, seed: int | str) -> list[Path]:
        """Files of the GANs that a variant's jobs read."""
        return list(self.pseudo(seed).files()) if self.needs_pseudo(variant) else []

    def attack(self, variant: str, seed: int | str, attack: str) -> AttackFolder:
        """The folder of one attack on one training; what it knows of the mask is in its name."""
        settings = self.study.inversion.attacks[attack]
        return self.run(variant, seed).attack(attack, getattr(settings, "mask", "ignored"))

    def attack_files(self, variant: str, seed: int | str) -> list[Path]:
        """Every file that the attacks on one training leave."""
        names = self.study.inversion.attacks
        return [f for name in names for f in files_of(self.attack(variant, seed, name))]

    def runs(self) -> Iterator[tuple[str, int]]:
        """Variant and seed of every training."""
        return ((variant, seed) for variant in self.variants() for seed in self.study.seeds)

    def metrics(self) -> list[Path]:
        """`metrics.json` of all trainings."""
        return [self.run(*run).metrics for run in self.runs()]

    def attack_metrics(self) -> list[Path]:
        """`metrics.json` of all attacks."""
        names = self.study.inversion.attacks
        return [self.attack(*run, name).metrics for run in self.runs() for name in names]

    def pseudo_metrics(self) -> list[Path]:
        """`metrics.json` of the clients' GANs of every seed, where some variant needs them."""
        needed = self.study.mixing_variants()
        return [self.pseudo(seed).metrics for seed in self.study.seeds] if needed else []

    def tables(self) -> list[Path]:
        """Every table."""
        return named(self.layout.tables, TABLES, TABLE_FORMATS)

    def figures(self) -> list[Path]:
        """Every figure."""
        names = FIGURES + (PSEUDO_FIGURES if self.study.mixing_variants() else ())
        return named(self.layout.figures, names, FORMATS)

    def pseudo_sources(self) -> tuple[Path, ...]:
        """Source files that decide the clients' GANs."""
        return source_files("cemlib.federated.pseudo")

    def train_sources(self) -> tuple[Path, ...]:
        """Source files that decide a training."""
        return source_files("cemlib.federated.training")

    def attack_sources(self) -> tuple[Path, ...]:
        """Source files that decide the attacks."""
        return source_files("cemlib.federated.attacking")

    def report_sources(self) -> tuple[Path, ...]:
        """Source files that decide the tables and figures."""
        return source_files("cemlib.federated.report")

    def pseudo_checkpoint(self, seed: int, origin: str) -> Path:
        """Folder of the GANs' checkpoint; `origin` names data and device."""
        settings, code = self.study.pseudo_slice(), fingerprint(self.pseudo_sources())
        return self.checkpoint("pseudo", seed, settings, code, origin)

    def train_checkpoint(self, variant: str, seed: int, origin: str) -> Path:
        """Folder of a training's checkpoint; `origin` names data, generators and device."""
        settings, code = self.study.train_slice(variant), fingerprint(self.train_sources())
        return self.checkpoint("federated", variant, seed, settings, code, origin)


def files_of(folder: AttackFolder) -> list[Path]:
    """Every file of a finished attack."""
    return [folder.metrics, folder.history, folder.per_image, folder.reconstructions]
