"""What of a study's results goes to MLflow, and what under version control."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cemlib.study.job import Job, records_below, report_files

if TYPE_CHECKING:
    from cemlib.systems import AnyPlan
    from cemlib.tracking import Study

ENDINGS = (".csv", ".md", ".png")  # of what is published of the further systems


def to_upload(plan: "AnyPlan", jobs: Sequence[Job], part: str | None = None) -> "Study":
    """Return what is uploaded: the results of runs, or of those of one defence, and the report."""
    from cemlib.tracking import Study

    runs, attacks = list[Path](), list[Path]()
    of_part = [job for job in jobs if part is None or part in job.name.split("/")]
    for record in records_below(plan.layout.root / "runs", of_part):
        (attacks if record.parent.parent.name == "attacks" else runs).append(record)
    return Study(plan.layout.root, plan.study.experiment, runs, attacks, report_files(jobs))


def publish_report(plan: "AnyPlan", jobs: Sequence[Job], config: Path) -> Iterator[Path]:
    """Copy tables and figures under results/published, with where they came from.

    Args:
        plan: The study.
        jobs: All its jobs.
        config: What a reader gives Snakemake to produce the study again.

    Raises:
        FileError: if a result is missing, or came from uncommitted code.
    """
    from cemlib.report.publish import publish

    root = plan.layout.root
    results = [*records_below(root / "pseudo", jobs), *records_below(root / "runs", jobs)]
    files = [file for file in report_files(jobs) if file.suffix in ENDINGS]
    command = f"snakemake --cores 2 --configfile {config}"
    yield from publish(results, files, Path("results/published") / plan.study.experiment, command)
