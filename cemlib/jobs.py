"""The jobs of a study, as the command line (and so Snakemake) and the runner carry them out.

Each yields the files it wrote, and a line for each result that is a failed one. What is heavy is
imported by the job that needs it, so that planning and `--help` answer at once.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from cemlib.config import ConfigError
from cemlib.plan import Plan
from cemlib.provenance import fingerprint
from cemlib.report import CLUSTERS, SURROGATES, WHOLE
from cemlib.seal import read_sealed

if TYPE_CHECKING:
    import torch

    from cemlib.report.sweeps import Sweeps

PARTS = ("tables", WHOLE, CLUSTERS, SURROGATES, "page")  # of the report


def find_device(name: str) -> "torch.device":
    """The device `cpu` or `cuda`; `auto` is the graphics card where there is one.

    Raises:
        ConfigError: if it is `cuda` and there is none.
    """
    import torch

    usable = torch.cuda.is_available()
    if name == "cuda" and not usable:
        raise ConfigError("--device cuda: torch finds no usable CUDA device; use --device cpu")
    return torch.device("cuda" if usable and name != "cpu" else "cpu")


def prepare(plan: Plan) -> Iterator[Path]:
    """Read, check, split and store the images; the description says by which settings and code."""
    from cemlib.data.prepare import prepare
    from cemlib.data.prepared import save

    prepared = prepare(plan.study.data)
    origin = prepared.provenance | {"preparation": preparation(plan)}
    yield from save(replace(prepared, provenance=origin), plan.layout.data)


def preparation(plan: Plan) -> dict[str, object]:
    """What decides the prepared data beside the images themselves."""
    settings = plan.study.data_slice()
    settings.pop("root")  # where the images lie is not what they are
    return {"settings": settings, "fingerprint": fingerprint(plan.prepare_sources())}


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


def user_errors() -> tuple[type[Exception], ...]:
    """Exceptions whose message is meant for the user; anything else is a bug and shows itself."""
    from cemlib.files import FileError
    from cemlib.tracking.errors import TrackingError

    # An OSError names the file and what the system refused: a full disk, a folder without rights.
    known = (ConfigError, FileError, TrackingError, OSError)
    # This room imports torch, for which the line about a mistyped name need not wait: where nothing
    # has imported the room, nothing there has raised an exception.
    if "cemlib.data.errors" not in sys.modules:
        return known
    from cemlib.data.errors import DataError

    return (*known, DataError)
