"""The jobs of a study: what each depends on, and where its files go.

Snakemake and the command line both ask here, so they cannot disagree. Nothing here imports torch:
a dry run of a large study stays quick.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from cemlib.config.load import ConfigError
from cemlib.config.study import JUDGE, Study
from cemlib.layout import KNOWLEDGES, AttackFolder, RunFolder
from cemlib.provenance import fingerprint, source_files
from cemlib.report import CLUSTERS, SURROGATES, SWEEP_TABLES, TABLES, WHOLE
from cemlib.report.page import PAGE, assets
from cemlib.study.base import FORMATS, StudyPlan, chosen, named

JUDGE_SEED = 1_000_000_007  # of no study's run: the judge is trained apart


@dataclass(frozen=True)
class Plan(StudyPlan[Study]):
    """Files and dependencies of a study of split inference."""

    def defences(self, only: str | None = None) -> tuple[str, ...]:
        """Names of the defences in the order of the configuration, or the one asked for.

        Raises:
            ConfigError: if there is no such defence.
        """
        return chosen("defence", tuple(self.study.defences), only)

    def defences_with_surrogate(self, only: str | None = None) -> tuple[str, ...]:
        """Those of `defences` whose training has a surrogate."""
        settings = self.study.defences
        return tuple(n for n in self.defences(only) if settings[n].surrogate is not None)

    def seeds(self, only: int | None = None) -> tuple[int, ...]:
        """Seeds of the study, or the one asked for.

        Raises:
            ConfigError: if there is no such seed.
        """
        return chosen("seed", self.study.seeds, only)

    def trainings(
        self, defence: str | None = None, seed: int | None = None
    ) -> Iterator[tuple[str, int]]:
        """Defence and seed of every training, the judge's last, or of those asked for.

        Raises:
            ConfigError: if there is no such defence or seed; the judge has none to choose.
        """
        if defence == JUDGE and seed is not None:
            raise ConfigError(f"--seed {seed}: there is one judge, with a seed of its own")
        if defence != JUDGE:
            yield from product(self.defences(defence), self.seeds(seed))
        if defence in (None, JUDGE) and seed is None:
            yield JUDGE, JUDGE_SEED

    def folder(self, defence: str, seed: int) -> RunFolder:
        """Folder of a training."""
        return self.layout.judge if defence == JUDGE else self.layout.run(defence, seed)

    def known_attack(self, name: str) -> str:
        """Return the name of an attack, or raise ConfigError with the nearest one."""
        (found,) = chosen("attack", tuple(self.study.attacks), name)
        return found

    def runs(self, only: str | None = None) -> Iterator[RunFolder]:
        """Folders of all runs, or of one defence's."""
        for defence in self.defences(only):
            for seed in self.study.seeds:
                yield self.layout.run(defence, seed)

    def attacks(self, only: str | None = None) -> Iterator[AttackFolder]:
        """Folders of all attacks with every knowledge, or of those on one defence."""
        for run in self.runs(only):
            for attack in self.study.attacks:
                for knowledge in KNOWLEDGES:
                    yield run.attack(attack, knowledge)

    def metrics(self, only: str | None = None) -> list[Path]:
        """`metrics.json` of all runs and attacks, or of those of one defence."""
        runs = [run.metrics for run in self.runs(only)]
        return runs + [attack.metrics for attack in self.attacks(only)]

    def attacked_files(self, run: RunFolder, attack: str) -> list[Path]:
        """Files that an attack on a run reads beside the data."""
        settings = self.study.attacks[attack]
        start, weights = settings.begins_with, settings.foreign_weights
        before = [run.attack(start, known) for known in KNOWLEDGES] if start else []
        made = [file for folder in before for file in (folder.attacker, folder.metrics)]
        made += [Path(weights)] if weights else []
        return [*run.files(), *self.layout.judge.files(), *made]

    def attack_files(self, run: RunFolder, attacks: Sequence[str]) -> list[Path]:
        """Files that some attacks leave on a run, with every knowledge."""
        folders = (run.attack(attack, known) for attack in attacks for known in KNOWLEDGES)
        return [file for folder in folders for file in folder.files()]

    def tables(self, only: str = "") -> list[Path]:
        """Tables of the study, or of one defence."""
        sweeps = SWEEP_TABLES if self.study.sweeps and not only else ()
        return [self.layout.tables / only / name for name in (*TABLES, *sweeps)]

    def figures(self) -> list[Path]:
        """Figures of the study, as PNG and SVG."""
        return self._drawn(WHOLE)

    def cluster_course(self) -> list[Path]:
        """The figure of how fitted clusters moved, if the study has any."""
        return self._drawn(CLUSTERS)

    def surrogate_courses(self) -> list[Path]:
        """The figures of how the surrogates worked, one for each defence that has one."""
        return self._drawn(SURROGATES)

    def all_figures(self) -> list[Path]:
        """Every figure that the report draws of this study."""
        return [*self.figures(), *self.cluster_course(), *self.surrogate_courses()]

    def page(self) -> list[Path]:
        """The results page."""
        return [self.layout.root / PAGE]

    def page_inputs(self) -> list[Path]:
        """Files that the page shows beside the results: the data's description, the pictures."""
        pictures = [path for path in self.all_figures() if path.suffix == ".png"]
        return [self.layout.prepared_facts, *pictures]

    def _drawn(self, part: str) -> list[Path]:
        """Files of the figures of a part of the report."""
        from cemlib.report.figures import drawings  # which decides nothing of a training

        choices = {
            "attack": tuple(self.study.attacks),
            "knowledge": KNOWLEDGES,
            "defence": self.defences_with_surrogate(),
        }
        several = len({attack.releases for attack in self.study.attacks.values()}) > 1
        has = ["releases"] * several + ["sweeps"] * bool(self.study.sweeps)
        names = [drawing.name for drawing in drawings(part, choices, has)]
        return named(self.layout.figures, names, FORMATS)

    def report_sources(self) -> tuple[Path, ...]:
        """Source files that decide the tables and figures."""
        from cemlib.report.figures import modules

        return source_files("cemlib.report.build", *modules())

    def page_sources(self) -> tuple[Path, ...]:
        """Source files that decide the results page, its template, style and scripts among them."""
        return (*source_files("cemlib.report.page.build"), *assets())

    def train_sources(self, defence: str) -> tuple[Path, ...]:
        """Source files that decide the training of one defence, or of the judge."""
        settings = self.study.defence(defence)
        surrogate, penalty = settings.surrogate, settings.penalty
        return source_files(
            "cemlib.training.job",
            models=self.study.model.name,
            surrogates=surrogate.name if surrogate else None,
            channels=settings.channel.name,
            penalties=penalty.name if penalty else None,
        )

    def attack_sources(self, defence: str, attack: str) -> tuple[Path, ...]:
        """Source files that decide one attack on one defence, given the run it attacks."""
        return source_files(
            "cemlib.evaluation.job",
            models=self.study.model.name,
            channels=self.study.defences[defence].channel.name,
            attacks=self.study.attacks[attack].kind,
        )

    def closed_form_sources(self, defence: str) -> tuple[Path, ...]:
        """Source files that decide the attacks without training."""
        attacks = self.study.closed_form_attacks()
        return tuple(sorted({file for a in attacks for file in self.attack_sources(defence, a)}))

    def train_checkpoint(self, defence: str, seed: int, origin: str) -> Path:
        """Folder of a training's checkpoint; `origin` names its prepared data and device."""
        settings, code = self.study.train_slice(defence), fingerprint(self.train_sources(defence))
        return self.checkpoint("train", defence, seed, settings, code, origin)

    def attack_checkpoint(self, defence: str, seed: int, attack: str, origin: str) -> Path:
        """Folder of an attack's checkpoint; `origin` names knowledge, victim, data and device."""
        config = self.study.attack_slice(defence, attack)
        code = fingerprint(self.attack_sources(defence, attack))
        return self.checkpoint("attack", defence, seed, attack, config, code, origin)
