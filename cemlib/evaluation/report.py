"""The report on a study of split inference: each job of it writes one part."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from cemlib.config.study import Study
from cemlib.report.build import write_figures, write_sweep_tables, write_tables
from cemlib.report.frontier import Sweeps
from cemlib.report.page.build import write_page
from cemlib.study.finished import mismatches
from cemlib.study.job import Job, owners


def run(job: Job[Study]) -> Iterator[Path]:
    """Write the tables, figures or page that a job is about: of one defence, or of all."""
    part, runs, attacks = job.kind, job.inputs["runs"], job.inputs.get("attacks", ())
    if part == "page":
        data, *figures = job.inputs["shown"]
        (out,) = job.outputs
        yield write_page(
            runs,
            attacks,
            out,
            data=data,
            figures=figures,
            settings=job.settings,
            stale=_stale(job),
        )
    elif part == "tables":
        yield from _tables(job, runs, attacks)
    else:
        yield from write_figures(
            runs,
            attacks,
            job.plan.layout.figures / _scope(job),
            defences=_defences(job),
            reference=_reference(job),
            sweeps=_sweeps(job),
            surrogates=[n for n in _defences(job) if job.plan.study.defences[n].surrogate],
            part=part,
        )


def _tables(job: Job[Study], runs: Sequence[Path], attacks: Sequence[Path]) -> Iterator[Path]:
    root, out = job.plan.layout.root, job.plan.layout.tables / _scope(job)
    yield from write_tables(
        root,
        runs,
        attacks,
        out,
        defences=_defences(job),
        reference=_reference(job),
        stale=_stale(job),
    )
    if (sweeps := _sweeps(job)) is not None:
        yield from write_sweep_tables(runs, attacks, out, sweeps)


def _stale(job: Job[Study]) -> list[str]:
    """Return why results are not the study's, where they are shown nevertheless."""
    return [f"Stale: {line}" for line in mismatches(owners(job.reads))] if job.plan.stale else []


def _scope(job: Job[Study]) -> str:
    """Return the one defence that a job is about, or nothing."""
    return str(job.of.get("defence", ""))


def _defences(job: Job[Study]) -> tuple[str, ...]:
    return tuple(name for name in job.plan.study.defences if _scope(job) in ("", name))


def _reference(job: Job[Study]) -> str | None:
    """Return the defence that the others are compared with, where all are shown."""
    return None if _scope(job) else job.plan.study.reference


def _sweeps(job: Job[Study]) -> Sweeps | None:
    study = job.plan.study
    if not study.sweeps or _scope(job):
        return None
    return Sweeps(study.families(), study.report.match_accuracy, study.report.accuracy_floor)
