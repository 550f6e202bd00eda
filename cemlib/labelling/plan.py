"""Where the files of a labelling study go, and which source files decide them; without torch."""

from dataclasses import dataclass
from pathlib import Path

from cemlib.config.errors import ConfigError
from cemlib.config.labelling import LabellingStudy
from cemlib.provenance import fingerprint, source_files
from cemlib.study.base import FORMATS, StudyPlan, named

TABLES = ("accuracy", "differences", "epsilon", "privacy", "cost")
TABLE_FORMATS = ("csv", "md", "tex", "html")
FIGURES = ("accuracy", "participants", "epsilon", "cost")


@dataclass(frozen=True)
class RepeatFolder:
    """Files of one repeat with one number of images."""

    root: Path

    @property
    def config(self) -> Path:
        """The slice of the configuration that it used."""
        return self.root / "config.json"

    @property
    def history(self) -> Path:
        """Losses, in tenths of the training."""
        return self.root / "history.jsonl"

    @property
    def per_image(self) -> Path:
        """What was answered about each image, as the requester sees it, and what was right."""
        return self.root / "per_image.parquet"

    @property
    def metrics(self) -> Path:
        """Scores and provenance."""
        return self.root / "metrics.json"

    def files(self) -> tuple[Path, ...]:
        """Every file of a finished repeat."""
        return (self.config, self.history, self.per_image, self.metrics)


@dataclass(frozen=True)
class LabellingPlan(StudyPlan[LabellingStudy]):
    """Files and dependencies of one labelling study."""

    def repeats(self, only: int | None = None) -> range:
        """Numbers of all repeats, or the one asked for.

        Raises:
            ConfigError: if there is no such repeat.
        """
        every = range(self.study.repeats)
        if only is None:
            return every
        if only not in every:
            raise ConfigError(f"no repeat {only} in this study (it has 0 to {every[-1]})")
        return range(only, only + 1)

    def folder(self, images: int, repeat: int | str) -> RepeatFolder:
        """The folder of one repeat with one number of images; a workflow passes wildcards."""
        return RepeatFolder(self.layout.run(f"images{images}", repeat).root)

    def repeat_files(self, repeat: int | str) -> list[Path]:
        """Every file that one repeat leaves."""
        return [file for n in self.study.images for file in self.folder(n, repeat).files()]

    def metrics(self) -> list[Path]:
        """`metrics.json` of all repeats."""
        return [self.folder(n, k).metrics for n in self.study.images for k in self.repeats()]

    @property
    def cost(self) -> Path:
        """What the cryptography took."""
        return self.layout.root / "cost" / "metrics.json"

    def tables(self) -> list[Path]:
        """Every table."""
        return named(self.layout.tables, TABLES, TABLE_FORMATS)

    def figures(self) -> list[Path]:
        """Every figure."""
        return named(self.layout.figures, FIGURES, FORMATS)

    def repeat_sources(self) -> tuple[Path, ...]:
        """Source files that decide a repeat."""
        return source_files("cemlib.labelling.job")

    def cost_sources(self) -> tuple[Path, ...]:
        """Source files that decide what the cryptography takes."""
        return source_files("cemlib.labelling.cost")

    def report_sources(self) -> tuple[Path, ...]:
        """Source files that decide the tables and figures."""
        return source_files("cemlib.labelling.report")

    def repeat_checkpoint(self, repeat: int, data_sha256: str) -> Path:
        """Folder of a repeat's checkpoint, for these settings, code and data."""
        settings, code = self.study.repeat_slice(), fingerprint(self.repeat_sources())
        return self.checkpoint("pctc", repeat, settings, code, data_sha256)
