"""The jobs of a labelling study; each yields the files it wrote, and a line for a failed result."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from cemlib.labelling.plan import LabellingPlan
from cemlib.study.job import Job


def jobs(plan: LabellingPlan, _device: str = "cpu") -> list[Job]:
    """Return all jobs of a study, each after those it needs; all of them compute on the CPU."""
    repeats = [_repeat(plan, number) for number in plan.repeats()]
    timing = Job(
        name="cost",
        needs=frozenset(),
        inputs={},
        outputs=[plan.cost],
        settings=plan.study.cost_slice(),
        sources=plan.cost_sources(),
        call=partial(cost, plan),
    )
    read = [*repeats, timing]
    inputs = {"metrics": plan.metrics(), "cost": [plan.cost]}
    return [
        plan.prepare_job(),
        *read,
        plan.report_job("tables", read, inputs, plan.tables(), partial(tables, plan)),
        plan.report_job("figures", read, inputs, plan.figures(), partial(figures, plan)),
    ]


def _repeat(plan: LabellingPlan, number: int) -> Job:
    return Job(
        name=f"repeat/{number}",
        needs=frozenset({"prepare"}),
        inputs={"data": [plan.layout.prepared]},
        outputs=plan.repeat_files(number),
        settings=plan.study.repeat_slice(),
        sources=plan.repeat_sources(),
        call=partial(repeat, plan, number),
    )


def repeat(plan: LabellingPlan, number: int) -> Iterator[Path | str]:
    """Carry out one repeat."""
    from cemlib.labelling.job import run

    for metrics in run(plan, number):
        folder = plan.folder(metrics["images"], number)
        if metrics["status"] == "failed":
            yield f"failed: repeat {number} with {metrics['images']} images: {metrics['reason']}"
        yield folder.metrics


def cost(plan: LabellingPlan) -> Iterator[Path]:
    """Time encryption and decryption at several key lengths."""
    from cemlib.labelling.cost import run

    yield run(plan)


def tables(plan: LabellingPlan) -> Iterator[Path]:
    """Write the tables."""
    from cemlib.labelling.report import write_tables

    yield from write_tables(plan)


def figures(plan: LabellingPlan) -> Iterator[Path]:
    """Write the figures."""
    from cemlib.labelling.report import write_figures

    yield from write_figures(plan)
