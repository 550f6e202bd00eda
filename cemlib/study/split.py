"""Split inference as a list of jobs."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

from cemlib.config.errors import ConfigError
from cemlib.config.study import JUDGE, JUDGE_SEED, Study
from cemlib.records.layout import KNOWLEDGES
from cemlib.report import OF_RUNS, PAGE, STYLE, SWEEP_TABLES, TABLES, TEMPLATE, WHOLE
from cemlib.report.figures import drawings, modules
from cemlib.study.job import (
    FOREIGN,
    Job,
    in_all_formats,
    owners,
    prepare_job,
    report_job,
    run_by,
    together,
)
from cemlib.study.plan import Plan, chosen

PARTS = ("tables", WHOLE, OF_RUNS, "page")  # of the report
_RUN = ("{defence}", "{seed}")
_REPORT = "cemlib.evaluation.report"
_SEVERAL = "attack/{defence}/seed{seed}/closed_form"

SplitJob = Job[Study]


def jobs(plan: Plan[Study]) -> list[SplitJob]:
    """Return all jobs of a study, each after those it needs."""
    found = [prepare_job(plan), train_job(plan, JUDGE, JUDGE_SEED)]
    trained, attacked = list[SplitJob](), list[SplitJob]()
    for seed in plan.study.seeds:  # first, so that a stopped study has all defences for some seeds
        trainings = [train_job(plan, name, seed) for name in plan.study.defences]
        attacks = [job for training in trainings for job in _attacks(training, found[1])]
        found += [*trainings, *attacks]
        trained, attacked = trained + trainings, attacked + attacks
    return [*found, *report_jobs(plan, trained, attacked)]


def trainings(
    plan: Plan[Study], defence: str | None = None, seed: int | None = None
) -> list[tuple[str, int]]:
    """Return defence and seed of every training, the judge's last, or of some.

    Raises:
        ConfigError: if there is no such defence or seed; the judge has a fixed one.
    """
    if defence == JUDGE and seed is not None:
        raise ConfigError(f"--seed {seed}: there is only one judge, with a fixed seed")
    judge = [(JUDGE, JUDGE_SEED)]
    if defence == JUDGE:
        return judge
    defences = chosen("defence", plan.study.defences, defence)
    found = [*product(defences, chosen("seed", plan.study.seeds, seed))]
    return found + judge if defence is None and seed is None else found


def train_job(plan: Plan[Study], defence: str, seed: int) -> SplitJob:
    """Return the job of one training, or of the judge's."""
    settings = plan.study.defence(defence)
    surrogate, penalty = settings.surrogate, settings.penalty
    is_judge = defence == JUDGE
    return Job(
        plan,
        JUDGE if is_judge else "train/{defence}/seed{seed}",
        of={"defence": defence, "seed": seed},
        reads=(prepare_job(plan),),
        inputs={"data": [plan.layout.prepared]},
        leaves=(plan.layout.judge if is_judge else plan.layout.run(*_RUN)).files(),
        settings=plan.study.train_slice(defence),
        device=plan.device,
        **run_by(
            "cemlib.training.job",
            models=plan.study.network(defence).name,
            surrogates=surrogate.name if surrogate else None,
            channels=settings.channel.name,
            penalties=penalty.name if penalty else None,
        ),
    )


def attack_job(plan: Plan[Study], defence: str, seed: int, attacks: Sequence[str]) -> SplitJob:
    """Return the job of some attacks on one run, each with every knowledge."""
    training, judge = train_job(plan, defence, seed), train_job(plan, JUDGE, JUDGE_SEED)
    parts = [_attack(training, judge, name) for name in attacks]
    return parts[0] if len(parts) == 1 else together(_SEVERAL, parts)


def _attacks(training: SplitJob, judge: SplitJob) -> Iterator[SplitJob]:
    """Yield the jobs of the attacks on one run; the closed-form ones share a job."""
    study = training.plan.study
    for name in study.learned_attacks():
        yield _attack(training, judge, name)
    if names := study.closed_form_attacks():  # each takes less time than starting a process
        yield together(_SEVERAL, [_attack(training, judge, name) for name in names])


def _attack(training: SplitJob, judge: SplitJob, name: str) -> SplitJob:
    plan, defence, seed = training.plan, training.of["defence"], training.of["seed"]
    settings, before = plan.study.attacks[name], list[SplitJob]()
    inputs = {**training.inputs, "model": training.outputs, "judge": judge.outputs}
    if start := settings.begins_with:
        before = [_attack(training, judge, start)]
        for known in KNOWLEDGES:
            at = plan.layout.run(defence, seed).attack(start, known)
            inputs[f"start_{known}"] = [at.attacker, at.metrics]
    if settings.foreign_weights:
        inputs[FOREIGN] = [Path(settings.foreign_weights)]
    folders = (plan.layout.run(*_RUN).attack("{attack}", known) for known in KNOWLEDGES)
    return Job(
        plan,
        "attack/{defence}/seed{seed}/{attack}",
        of={"defence": defence, "seed": seed, "attack": name},
        reads=(training, judge, *before),
        inputs=inputs,
        leaves=[file for folder in folders for file in folder.files()],
        settings=plan.study.attack_slice(defence, name),
        device=plan.device,
        **run_by(
            "cemlib.evaluation.job",
            models=plan.study.network(defence).name,
            channels=plan.study.defences[defence].channel.name,
            attacks=settings.kind,
        ),
    )


def report_jobs(
    plan: Plan[Study], trained: Sequence[SplitJob], attacked: Sequence[SplitJob]
) -> list[SplitJob]:
    """Return the jobs of the tables, the figures, and the page that shows them."""
    runs = {"runs": [*owners(trained)]}
    both = runs | {"attacks": [*owners(attacked)]}
    everything, (*drawn, page) = [*trained, *attacked], PARTS
    run = run_by(_REPORT, *modules())
    parts = []
    for part in drawn:
        read, inputs = (trained, runs) if part == OF_RUNS else (everything, both)
        parts.append(report_job(plan, part, read, inputs, _written(plan, part), **run))
    pictures = [file for job in parts for file in job.outputs if file.suffix == ".png"]
    shown = both | {"shown": [plan.layout.prepared_facts, *pictures]}
    made = [plan.layout.written / PAGE]
    read = [prepare_job(plan), *everything, *parts]
    last = report_job(plan, page, read, shown, made, **run)
    sources = (*last.sources, TEMPLATE, STYLE)
    return [*parts, replace(last, settings=plan.study.plain(), sources=sources)]


def tables_of_one(plan: Plan[Study], defence: str) -> SplitJob:
    """Return the job of the tables of one defence; raise ConfigError if there is no such one."""
    chosen("defence", plan.study.defences, defence)
    judge = train_job(plan, JUDGE, JUDGE_SEED)
    trained = [train_job(plan, defence, seed) for seed in plan.study.seeds]
    attacked = [job for training in trained for job in _attacks(training, judge)]
    tables, *_ = report_jobs(plan, trained, attacked)
    files = [plan.layout.tables / "{defence}" / name for name in TABLES]
    return replace(tables, pattern="tables/{defence}", of={"defence": defence}, leaves=files)


def _written(plan: Plan[Study], part: str) -> list[Path]:
    if part == "tables":
        sweeps = SWEEP_TABLES if plan.study.sweeps else ()
        return [plan.layout.tables / name for name in (*TABLES, *sweeps)]
    study = plan.study
    releases = (attack.releases for attack in study.attacks.values())
    names = [each.name for each in drawings(part, KNOWLEDGES, releases, bool(study.sweeps))]
    return in_all_formats(plan, figures=names)
