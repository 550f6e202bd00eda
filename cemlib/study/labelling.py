"""Collaborative labelling as a list of jobs."""

from cemlib.config.labelling import LabellingStudy
from cemlib.study.job import Job, in_all_formats, owners, prepare_job, report_job, run_by
from cemlib.study.plan import Plan

TABLES = ("accuracy", "differences", "epsilon", "privacy", "cost")
FIGURES = ("accuracy", "epsilon")

LabellingJob = Job[LabellingStudy]


def jobs(plan: Plan[LabellingStudy]) -> list[LabellingJob]:
    """Return all jobs of a study, each after those it needs; all of them compute on the CPU."""
    repeats = [repeat_job(plan, number) for number in range(plan.study.repeats)]
    cost = cost_job(plan)
    read = [*repeats, cost]
    inputs = {"metrics": [*owners(repeats)], "cost": cost.records}
    files = in_all_formats(plan, TABLES, FIGURES)
    report = report_job(plan, "report", read, inputs, files, **run_by("cemlib.labelling.report"))
    return [prepare_job(plan), *read, report]


def repeat_job(plan: Plan[LabellingStudy], number: int) -> LabellingJob:
    """Return the job of one repeat, with every number of images."""
    folders = (plan.layout.repeat(images, "{repeat}") for images in plan.study.images)
    return Job(
        plan,
        "repeat/{repeat}",
        of={"repeat": number},
        reads=(prepare_job(plan),),
        inputs={"data": [plan.layout.prepared]},
        leaves=[file for folder in folders for file in folder.files()],
        settings=plan.study.repeat_slice(),
        **run_by("cemlib.labelling.job"),
    )


def cost_job(plan: Plan[LabellingStudy]) -> LabellingJob:
    """Return the job that times the cryptography."""
    return Job(
        plan,
        "cost",
        leaves=[plan.layout.cost],
        settings=plan.study.cost_slice(),
        **run_by("cemlib.labelling.cost"),
    )
