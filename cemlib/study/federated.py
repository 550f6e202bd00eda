"""Federated learning as a list of jobs."""

from itertools import product

from cemlib.config.federated import Federated
from cemlib.records.layout import AttackFolder
from cemlib.study.job import Job, in_all_formats, owners, prepare_job, report_job, run_by, together
from cemlib.study.plan import Plan

TABLES = ("accuracy", "differences", "privacy", "tradeoff", "cost")
FIGURES = ("accuracy", "tradeoff", "reconstructions")
PSEUDO_FIGURES = ("pseudo", "convergence")
_RUN = ("{variant}", "{seed}")

FederatedJob = Job[Federated]


def jobs(plan: Plan[Federated]) -> list[FederatedJob]:
    """Return all jobs of a study, each after those it needs."""
    study, mixing = plan.study, plan.study.mixes()
    gans = [gans_job(plan, seed) for seed in (study.seeds if mixing else ())]
    of_runs = [
        job
        for run in product(study.variants, study.seeds)
        for job in (train_job(plan, *run), attack_job(plan, *run))
    ]
    read = [*gans, *of_runs]
    metrics = {"metrics": [*owners(read)]}
    drawn = FIGURES + (PSEUDO_FIGURES if mixing else ())
    files = in_all_formats(plan, TABLES, drawn)
    report = report_job(plan, "report", read, metrics, files, **run_by("cemlib.federated.report"))
    return [prepare_job(plan), *read, report]


def gans_job(plan: Plan[Federated], seed: int) -> FederatedJob:
    """Return the job of the clients' GANs of one seed."""
    return Job(
        plan,
        "gans/seed{seed}",
        of={"seed": seed},
        reads=(prepare_job(plan),),
        inputs={"data": [plan.layout.prepared]},
        leaves=plan.layout.gans("{seed}").files(),
        settings=plan.study.pseudo_slice(),
        device=plan.device,
        **run_by("cemlib.federated.pseudo"),
    )


def train_job(plan: Plan[Federated], variant: str, seed: int) -> FederatedJob:
    """Return the job of one training."""
    mixes = plan.study.variants[variant].mixing is not None
    generators = {"generators": plan.layout.gans(seed).files()} if mixes else {}
    gans = (gans_job(plan, seed),) if mixes else ()
    return Job(
        plan,
        "train/{variant}/seed{seed}",
        of={"variant": variant, "seed": seed},
        reads=(prepare_job(plan), *gans),
        inputs={"data": [plan.layout.prepared], **generators},
        leaves=plan.layout.run(*_RUN).files(),
        settings=plan.study.train_slice(variant),
        device=plan.device,
        **run_by("cemlib.federated.training"),
    )


def attack_job(plan: Plan[Federated], variant: str, seed: int) -> FederatedJob:
    """Return the job of all attacks on one training."""
    parts = [_attack(plan, variant, seed, name) for name in plan.study.inversion.attacks]
    return together("attack/{variant}/seed{seed}", parts)


def _attack(plan: Plan[Federated], variant: str, seed: int, name: str) -> FederatedJob:
    training = train_job(plan, variant, seed)
    run, written = plan.layout.run(variant, seed), attack_folder(plan, *_RUN, name)
    return Job(
        plan,
        "attack/{variant}/seed{seed}",
        of={"variant": variant, "seed": seed, "attack": name},
        reads=(training,),
        inputs={**training.inputs, "model": run.files()},
        leaves=[written.metrics, written.history, written.per_image, written.reconstructions],
        settings=plan.study.attack_slice(variant, name),
        device=plan.device,
        **run_by("cemlib.federated.attacking"),
    )


def attack_folder(
    plan: Plan[Federated], variant: str, seed: int | str, attack: str
) -> AttackFolder:
    """Return the folder of one attack, whose name says what it knows of the mask."""
    known = getattr(plan.study.inversion.attacks[attack], "mask", "ignored")
    return plan.layout.run(variant, seed).attack(attack, known)
