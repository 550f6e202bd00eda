"""The jobs of a study of split inference: those of the workflow's rules, with the same logs."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from cemlib.config.study import JUDGE
from cemlib.jobs import PARTS, attack_missing, report, train
from cemlib.plan import Plan
from cemlib.study.job import Job, together

*_DRAWN, _PAGE = PARTS
_OF_RUNS = ("cluster_course", "surrogates")  # which show no attack


def jobs(plan: Plan, device: str = "auto") -> list[Job]:
    """Return all jobs of a study, each after those it needs, seed by seed.

    So a study that is stopped has all its defences over the seeds that are done.

    Args:
        plan: The study.
        device: `auto`, `cpu` or `cuda`.
    """
    found = [
        plan.prepare_job(),
        *(training(plan, *judge, device) for judge in plan.trainings(JUDGE)),
    ]
    trained, attacked = list[Job](), list[Job]()
    for seed in plan.seeds():
        trainings = [training(plan, name, seed, device) for name in plan.defences()]
        attacks = [job for name in plan.defences() for job in _attacks(plan, name, seed, device)]
        found += [*trainings, *attacks]
        trained, attacked = trained + trainings, attacked + attacks
    return [*found, *_reports(plan, trained, attacked)]


def training(plan: Plan, defence: str, seed: int, device: str = "auto") -> Job:
    """Return the job of one training, or of the judge's."""
    return Job(
        name=_training_name(defence, seed),
        needs=frozenset({"prepare"}),
        inputs={"data": [plan.layout.prepared]},
        outputs=plan.folder(defence, seed).files(),
        settings=plan.study.train_slice(defence),
        sources=plan.train_sources(defence),
        call=partial(train, plan, defence, seed, device),
    )


def _attacks(plan: Plan, defence: str, seed: int, device: str) -> Iterator[Job]:
    """Yield the jobs of the attacks on one run: the closed-form ones share a job."""
    for name in plan.study.learned_attacks():
        yield attack(plan, defence, seed, name, device)
    if names := plan.study.closed_form_attacks():
        parts = [attack(plan, defence, seed, name, device) for name in names]
        call = partial(attack_missing, plan, defence, seed, names, device)
        yield together(_attack_name(defence, seed, "closed_form"), parts, call)


def attack(plan: Plan, defence: str, seed: int, name: str, device: str = "auto") -> Job:
    """Return the job of one attack on one run, with every knowledge."""
    run, start = plan.layout.run(defence, seed), plan.study.attacks[name].begins_with
    needs = {JUDGE, _training_name(defence, seed)}
    needs |= {_attack_name(defence, seed, start)} if start else set()
    return Job(
        name=_attack_name(defence, seed, name),
        needs=frozenset(needs),
        inputs={"data": [plan.layout.prepared], "attacked": plan.attacked_files(run, name)},
        outputs=plan.attack_files(run, [name]),
        settings=plan.study.attack_slice(defence, name),
        sources=plan.attack_sources(defence, name),
        call=partial(attack_missing, plan, defence, seed, [name], device),
    )


def _reports(plan: Plan, trained: Sequence[Job], attacked: Sequence[Job]) -> list[Job]:
    """Return the jobs of tables, figures and the page, which shows what the others have drawn."""
    everything, written = [*trained, *attacked], _written(plan)
    of_runs, of_all = [run.metrics for run in plan.runs()], plan.metrics()
    parts = []
    for part, files in written.items():
        read, metrics = (trained, of_runs) if part in _OF_RUNS else (everything, of_all)
        write = partial(report, plan, part)
        parts.append(plan.report_job(part, read, {"metrics": metrics}, files, write))
    return [*parts, _page(plan, [*everything, *parts])]


def _page(plan: Plan, read: Sequence[Job]) -> Job:
    inputs = {"metrics": plan.metrics(), "shown": plan.page_inputs()}
    job = plan.report_job(_PAGE, read, inputs, plan.page(), partial(report, plan, _PAGE))
    settings = plan.study.model_dump(mode="json", by_alias=True)
    return replace(job, settings=settings, sources=plan.page_sources())


def _written(plan: Plan) -> dict[str, list[Path]]:
    """Return the files of each part of the report but the page, of those that the study has."""
    lists = (plan.tables(), plan.figures(), plan.cluster_course(), plan.surrogate_courses())
    return {part: files for part, files in zip(_DRAWN, lists, strict=True) if files}


def _training_name(defence: str, seed: int) -> str:
    return JUDGE if defence == JUDGE else f"train/{defence}/seed{seed}"


def _attack_name(defence: str, seed: int, attack: str) -> str:
    return f"attack/{defence}/seed{seed}/{attack}"
