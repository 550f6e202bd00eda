"""The jobs of a study of split inference: those of the workflow's rules, with the same logs."""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from cemlib.config.study import JUDGE
from cemlib.jobs import PARTS, attack_missing, report, train
from cemlib.plan import Plan
from cemlib.study.job import Job, together

_PAGE = "page"
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
    return Job(
        name=_attack_name(defence, seed, name),
        needs=frozenset({JUDGE, _training_name(defence, seed)})
        | ({_attack_name(defence, seed, start)} if start else set()),
        inputs={"data": [plan.layout.prepared], "attacked": plan.attacked_files(run, name)},
        outputs=plan.attack_files(run, [name]),
        settings=plan.study.attack_slice(defence, name),
        sources=plan.attack_sources(defence, name),
        call=partial(attack_missing, plan, defence, seed, [name], device),
    )


def _reports(plan: Plan, trained: Sequence[Job], attacked: Sequence[Job]) -> Iterator[Job]:
    """Yield the jobs of tables, figures and the page, which shows what the others have drawn."""
    of_runs = frozenset(job.name for job in trained)
    of_all = of_runs | {job.name for job in attacked}
    written = _written(plan)
    for part, files in written.items():
        if part == _PAGE:
            yield _page(plan, of_all | (set(written) - {_PAGE}))
        elif part in _OF_RUNS:
            yield _report(plan, part, files, of_runs, [run.metrics for run in plan.runs()])
        else:
            yield _report(plan, part, files, of_all, plan.metrics())


def _report(
    plan: Plan, part: str, files: Sequence[Path], needs: frozenset[str], metrics: Sequence[Path]
) -> Job:
    return Job(
        name=part,
        needs=needs,
        inputs={"metrics": metrics, "config": [plan.layout.config]},
        outputs=files,
        settings=plan.study.report_slice(),
        sources=plan.report_sources(),
        call=partial(report, plan, part),
    )


def _page(plan: Plan, needs: frozenset[str]) -> Job:
    return Job(
        name=_PAGE,
        needs=needs,
        inputs={
            "metrics": plan.metrics(),
            "shown": plan.page_inputs(),
            "config": [plan.layout.config],
        },
        outputs=plan.page(),
        settings=plan.study.model_dump(mode="json", by_alias=True),
        sources=plan.page_sources(),
        call=partial(report, plan, _PAGE),
    )


def _written(plan: Plan) -> dict[str, list[Path]]:
    """Return the files of each part of the report, of those that the study has."""
    lists = (
        plan.tables(),
        plan.figures(),
        plan.cluster_course(),
        plan.surrogate_courses(),
        plan.page(),
    )
    return {part: files for part, files in zip(PARTS, lists, strict=True) if files}


def _training_name(defence: str, seed: int) -> str:
    return JUDGE if defence == JUDGE else f"train/{defence}/seed{seed}"


def _attack_name(defence: str, seed: int, attack: str) -> str:
    return f"attack/{defence}/seed{seed}/{attack}"
