"""The jobs of a study: what each waits for, and what is to be done for it.

They are those of the workflow's rules, with the same logs. What is to be done is asked when all
that a job waits for is finished: only then can its files be compared with what they were made from.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from cemlib import jobs
from cemlib.config.study import JUDGE
from cemlib.layout import KNOWLEDGES
from cemlib.plan import Plan
from cemlib.runner.finished import came_after, data_is_prepared, is_attacked, is_trained

Call = Callable[[], Iterator[Path | str]]


@dataclass(frozen=True)
class Work:
    """What a worker does for a job.

    Attributes:
        call: the job.
        log: file of what it prints.
        marks: files that say that it is finished, deleted before it begins.
    """

    call: Call
    log: Path
    marks: Sequence[Path] = ()


@dataclass(frozen=True)
class Job:
    """One job.

    Attributes:
        name: its log's place, without the ending.
        needs: names of the jobs whose files it reads.
        todo: what is to be done, or None if it is finished; to be asked when `needs` are.
    """

    name: str
    needs: frozenset[str]
    todo: Callable[[], Work | None] = field(compare=False)


@dataclass(frozen=True)
class Graph:
    """The jobs of a study, on a device (`auto`, `cpu` or `cuda`)."""

    plan: Plan
    device: str

    def jobs(self) -> list[Job]:
        """Return all jobs, each after those it needs, seed by seed.

        So a study that is stopped has all its defences over the seeds that are done.
        """
        jobs = [Job("prepare", frozenset(), self._to_prepare)]
        jobs += [self._training(*judge) for judge in self.plan.trainings(JUDGE)]
        trained, attacked = list[Job](), list[Job]()
        for seed in self.plan.seeds():
            trainings = [self._training(name, seed) for name in self.plan.defences()]
            attacks = [job for name in self.plan.defences() for job in self._attacks(name, seed)]
            jobs, trained = [*jobs, *trainings, *attacks], [*trained, *trainings]
            attacked += attacks
        return [*jobs, *self._reports(trained, attacked)]

    def _training(self, defence: str, seed: int) -> Job:
        todo = partial(self._to_train, defence, seed)
        return Job(_training_name(defence, seed), frozenset({"prepare"}), todo)

    def _attacks(self, defence: str, seed: int) -> Iterator[Job]:
        study = self.plan.study
        for name in study.learned_attacks():
            yield self._attack(defence, seed, name, [name], study.attacks[name].begins_with)
        if together := study.closed_form_attacks():
            yield self._attack(defence, seed, "closed_form", together)

    def _attack(
        self, defence: str, seed: int, label: str, attacks: Sequence[str], start: str | None = None
    ) -> Job:
        name = _attack_name(defence, seed, label)
        needs = {JUDGE, _training_name(defence, seed)}
        needs |= {_attack_name(defence, seed, start)} if start else set()
        return Job(name, frozenset(needs), partial(self._to_attack, name, defence, seed, attacks))

    def _reports(self, trained: Sequence[Job], attacked: Sequence[Job]) -> Iterator[Job]:
        of_runs = frozenset(job.name for job in trained)
        of_all = of_runs | {job.name for job in attacked}
        parts = [part for part in jobs.PARTS if self._written(part)]
        for part in parts:
            needs = of_all if part in _OF_ALL else of_runs
            if part == _PAGE:  # which shows what the others have drawn
                needs |= set(parts) - {_PAGE}
            yield Job(part, needs, partial(self._to_report, part))

    def _written(self, part: str) -> list[Path]:
        lists = (
            self.plan.tables(),
            self.plan.figures(),
            self.plan.cluster_course(),
            self.plan.surrogate_courses(),
            self.plan.page(),
        )
        return dict(zip(jobs.PARTS, lists, strict=True))[part]

    def _to_prepare(self) -> Work | None:
        if data_is_prepared(self.plan):
            return None
        facts = self.plan.layout.prepared_facts
        return Work(partial(jobs.prepare, self.plan), self._log("prepare"), [facts])

    def _to_train(self, defence: str, seed: int) -> Work | None:
        if is_trained(self.plan, defence, seed):
            return None
        call = partial(jobs.train, self.plan, defence, seed, self.device)
        marks = [self.plan.folder(defence, seed).metrics]
        return Work(call, self._log(_training_name(defence, seed)), marks)

    def _to_attack(self, name: str, defence: str, seed: int, attacks: Sequence[str]) -> Work | None:
        left = [a for a in attacks if not is_attacked(self.plan, defence, seed, a)]
        if not left:
            return None
        run = self.plan.layout.run(defence, seed)
        marks = [run.attack(a, knowledge).metrics for a in left for knowledge in KNOWLEDGES]
        call = partial(jobs.attack, self.plan, defence, seed, left, self.device)
        return Work(call, self._log(name), marks)

    def _to_report(self, part: str) -> Work | None:
        if came_after(self._written(part), self._read_by(part)):
            return None
        return Work(partial(jobs.report, self.plan, part), self._log(part))

    def _read_by(self, part: str) -> list[Path]:
        plan = self.plan
        metrics = plan.metrics() if part in _OF_ALL else [run.metrics for run in plan.runs()]
        if part == _PAGE:
            return [*metrics, plan.layout.config, *plan.page_sources(), *plan.page_inputs()]
        return [*metrics, plan.layout.config, *plan.report_sources()]

    def _log(self, name: str) -> Path:
        return self.plan.layout.root / "logs" / f"{name}.log"


_PAGE = "page"
_OF_ALL = ("tables", "figures", _PAGE)


def _training_name(defence: str, seed: int) -> str:
    return JUDGE if defence == JUDGE else f"train/{defence}/seed{seed}"


def _attack_name(defence: str, seed: int, attack: str) -> str:
    return f"attack/{defence}/seed{seed}/{attack}"
