"""What the jobs of a study of split inference do, by whatever they are called.

Each yields the files it wrote, and a line for each result that is a failed one. What is heavy is
imported by the job that needs it, so that planning and `--help` answer at once.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cemlib.config import ConfigError
from cemlib.layout import KNOWLEDGES
from cemlib.plan import Plan
from cemlib.report import CLUSTERS, SURROGATES, WHOLE
from cemlib.seal import read_sealed
from cemlib.study.process import find_device

if TYPE_CHECKING:
    from cemlib.report.sweeps import Sweeps

PARTS = ("tables", WHOLE, CLUSTERS, SURROGATES, "page")  # of the report


def train(plan: Plan, defence: str, seed: int, device: str) -> Iterator[Path | str]:
    """Train one run, or the judge."""
    from cemlib.training.job import TrainJob, run

    job = TrainJob(plan, defence, seed, find_device(device))
    metrics = run(job)
    if metrics["status"] == "failed":
        yield f"failed: {job.name}: {metrics['reason']}"
    yield job.folder.metrics


def attack(
    plan: Plan, defence: str, seed: int, attacks: Sequence[str], device: str
) -> Iterator[Path | str]:
    """Carry out some attacks on one run, with every knowledge."""
    from cemlib.evaluation.job import AttackJob, run

    for folder in run(AttackJob(plan, defence, seed, attacks, find_device(device))):
        metrics = read_sealed(folder.metrics, ("status", "reason"))
        if metrics["status"] == "failed":
            yield f"failed: {defence} seed{seed} {folder.root.name}: {metrics['reason']}"
        yield folder.metrics


def attack_missing(
    plan: Plan, defence: str, seed: int, attacks: Sequence[str], device: str
) -> Iterator[Path | str]:
    """Carry out those of some attacks that lack a record."""
    run = plan.layout.run(defence, seed)
    left = [
        name
        for name in attacks
        if not all(run.attack(name, known).metrics.is_file() for known in KNOWLEDGES)
    ]
    yield from attack(plan, defence, seed, left, device)


def report(plan: Plan, only: str | None = None, defence: str | None = None) -> Iterator[Path]:
    """Write tables, figures and page, or one of `PARTS`; of one defence (no page), or of all."""
    from cemlib.report import build

    defences, scope = plan.defences(defence), defence or ""
    runs = [run.metrics for run in plan.runs(defence)]
    attacks = [attack.metrics for attack in plan.attacks(defence)]
    tables, figures = plan.layout.tables / scope, plan.layout.figures / scope
    reference = plan.study.reference if defence is None else None
    sweeps = _sweeps(plan) if plan.study.sweeps and defence is None else None
    if only == "page" and defence is not None:
        raise ConfigError(f"--defence {defence}: the page is of the whole study; leave it out")
    if only in (None, "tables"):
        yield from build.write_tables(
            plan.layout.root, runs, attacks, tables, defences=defences, reference=reference
        )
        if sweeps is not None:
            yield from build.write_sweep_tables(runs, attacks, tables, sweeps)
    for part in (WHOLE, CLUSTERS, SURROGATES):
        if only in (None, part):
            yield from build.write_figures(
                runs,
                attacks if part == WHOLE else (),
                figures,
                defences=plan.defences_with_surrogate(defence) if part == SURROGATES else defences,
                reference=reference,
                sweeps=sweeps,
                part=part,
            )
    if only in (None, "page") and defence is None:
        yield _page(plan, runs, attacks)


def _sweeps(plan: Plan) -> "Sweeps":
    from cemlib.report.sweeps import Sweeps

    report = plan.study.report
    return Sweeps(plan.study.families(), report.match_accuracy, report.accuracy_floor)


def _page(plan: Plan, runs: Sequence[Path], attacks: Sequence[Path]) -> Path:
    from cemlib.report.page.build import write_page

    (out,), (data, *figures) = plan.page(), plan.page_inputs()
    settings = plan.study.model_dump(mode="json", by_alias=True)
    return write_page(runs, attacks, out, data=data, figures=figures, settings=settings)
