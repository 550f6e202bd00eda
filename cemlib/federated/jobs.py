"""The jobs of a federated study; each yields the files it wrote, and a line for a failed result."""

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from cemlib.federated.plan import FederatedPlan, files_of
from cemlib.seal import read_sealed
from cemlib.study.job import Job, together
from cemlib.study.process import find_device


def jobs(plan: FederatedPlan, device: str = "auto") -> list[Job]:
    """Return all jobs of a study, each after those it needs.

    Args:
        plan: The study.
        device: `auto`, `cpu` or `cuda`.
    """
    seeds = plan.seeds() if plan.study.mixing_variants() else ()
    gans = [_pseudo(plan, seed, device) for seed in seeds]
    of_runs = [
        job
        for run in plan.runs()
        for job in (_training(plan, *run, device), _attacks(plan, *run, device))
    ]
    read = [*gans, *of_runs]
    metrics = {"metrics": [*plan.metrics(), *plan.pseudo_metrics(), *plan.attack_metrics()]}
    written = [*plan.tables(), *plan.figures()]
    reporting = plan.report_job("report", read, metrics, written, partial(report, plan))
    return [plan.prepare_job(), *read, reporting]


def _pseudo(plan: FederatedPlan, seed: int, device: str) -> Job:
    return Job(
        name=f"pseudo/seed{seed}",
        needs=frozenset({"prepare"}),
        inputs={"data": [plan.layout.prepared]},
        outputs=plan.pseudo(seed).files(),
        settings=plan.study.pseudo_slice(),
        sources=plan.pseudo_sources(),
        call=partial(pseudo, plan, seed, device),
    )


def _training(plan: FederatedPlan, variant: str, seed: int, device: str) -> Job:
    generators = plan.pseudo_inputs(variant, seed)
    return Job(
        name=f"train/{variant}/seed{seed}",
        needs=frozenset({"prepare", *([f"pseudo/seed{seed}"] if generators else [])}),
        inputs={"data": [plan.layout.prepared]}
        | ({"generators": generators} if generators else {}),
        outputs=plan.run(variant, seed).files(),
        settings=plan.study.train_slice(variant),
        sources=plan.train_sources(),
        call=partial(train, plan, variant, seed, device),
    )


def _attacks(plan: FederatedPlan, variant: str, seed: int, device: str) -> Job:
    """Return the job of all attacks on one training."""
    run, settings = plan.run(variant, seed), plan.study.attack_slice(variant)
    call = partial(attack, plan, variant, seed, device)
    parts = [
        Job(
            name=f"attack/{variant}/seed{seed}/{name}",
            needs=frozenset({f"train/{variant}/seed{seed}"}),
            inputs={
                "data": [plan.layout.prepared],
                "model": [run.model, *run.files()],
                "pseudo": plan.pseudo_inputs(variant, seed),
            },
            outputs=files_of(plan.attack(variant, seed, name)),
            settings=settings | {"attack": settings["inversion"]["attacks"][name]},
            sources=plan.attack_sources(),
            call=call,
        )
        for name in plan.study.inversion.attacks
    ]
    return together(f"attack/{variant}/seed{seed}", parts, call)


def pseudo(plan: FederatedPlan, seed: int, device: str) -> Iterator[Path | str]:
    """Train the clients' GANs of one seed."""
    from cemlib.federated.pseudo import run
    from cemlib.federated.record import FederatedJob

    metrics = run(FederatedJob(plan, "pseudo", None, seed, find_device(device)))
    yield from _told(plan.pseudo(seed).metrics, metrics, f"GANs of seed {seed}")


def train(plan: FederatedPlan, variant: str, seed: int, device: str) -> Iterator[Path | str]:
    """Train one variant with one seed."""
    from cemlib.federated.record import FederatedJob
    from cemlib.federated.training import run

    metrics = run(FederatedJob(plan, "train", variant, seed, find_device(device)))
    yield from _told(plan.run(variant, seed).metrics, metrics, f"{variant} seed{seed}")


def attack(plan: FederatedPlan, variant: str, seed: int, device: str) -> Iterator[Path | str]:
    """Attack single gradients of one training."""
    from cemlib.federated.attacking import run
    from cemlib.federated.record import FederatedJob

    for path in run(FederatedJob(plan, "attack", variant, seed, find_device(device))):
        record = read_sealed(path, ("status", "reason"))
        yield from _told(path, record, f"{variant} seed{seed} {path.parent.name}")


def _told(path: Path, record: Mapping[str, Any], name: str) -> Iterator[Path | str]:
    """Yield a line for a failed result, and its record."""
    if record["status"] == "failed":
        yield f"failed: {name}: {record['reason']}"
    yield path


def report(plan: FederatedPlan) -> Iterator[Path]:
    """Write the tables and figures."""
    from cemlib.federated.report import write_report

    yield from write_report(plan)
