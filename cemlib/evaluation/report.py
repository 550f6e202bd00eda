"""The report jobs of a study of split inference; each writes one part."""

from collections.abc import Iterator
from pathlib import Path

from cemlib.config.study import Study
from cemlib.report.build import Results, write_figures, write_tables
from cemlib.report.comparisons import default_reference
from cemlib.report.frontier import Sweeps
from cemlib.report.page import write_page
from cemlib.report.tables import collect
from cemlib.study.finished import mismatches
from cemlib.study.job import Job, owners

STALE = "Stale: some results were made with other settings, data or code than the study's"


def run(job: Job[Study]) -> Iterator[Path]:
    """Write tables, figures or the page, as the job's kind says, and yield their paths."""
    layout = job.plan.layout
    told = mismatches(owners(job.reads)) if job.plan.stale else ()
    stale = [f"Stale: {line}" for line in told]
    if job.kind == "page":
        data, *figures = job.inputs["shown"]
        if job.plan.stale:  # other settings may have other figures
            figures = [file for file in figures if file.is_file()]
        metrics, (out,) = [*job.inputs["runs"], *job.inputs["attacks"]], job.outputs
        shown = {"data": data, "figures": figures, "settings": job.settings}
        yield write_page(results_of(job), metrics, out, **shown, stale=stale)
    elif job.kind == "tables":
        out = job.outputs[0].parent
        yield from write_tables(results_of(job), layout.root, out, stale=stale)
    else:
        yield from write_figures(results_of(job), layout.figures, job.kind, STALE if stale else "")


def results_of(job: Job[Study]) -> Results:
    """Read the results of one defence, or of all with the settings that compare them."""
    study, one = job.plan.study, job.of.get("defence")
    names = [one] if one else list(study.defences)
    return Results(
        *collect(job.inputs["runs"], job.inputs.get("attacks", ())),
        names,
        reference=None if one else study.reference or default_reference(names),
        sweeps=Sweeps() if one else Sweeps(study.families(), study.report.match_accuracy),
        surrogates=[name for name, defence in study.defences.items() if defence.surrogate],
    )
