# The studies of the workflow with their jobs; the configuration is checked before any job.
import hashlib
import os
import re
import sys
import tempfile
import time
from pathlib import Path

from snakemake.exceptions import WorkflowError
from snakemake.logging import logger
from snakemake.settings.enums import Quietness
from snakemake_interface_logger_plugins.common import LogEvent

from cemlib.config import ConfigError
from cemlib.config.extending import resolved
from cemlib.config.load import SPLIT, parse_any
from cemlib.study.environment import set_for_jobs
from cemlib.records.files import FileError
from cemlib.report.figures import DRAWINGS, PICTURES
from cemlib.study.requirements import OK, images, warnings_of
from cemlib.study.rules import JobRule, Planned, age_lost_results
from cemlib.study.schedule import duration
from cemlib.study.split import tables_of_one
from cemlib.study.status import failed_results
from cemlib.study.job import records_below
from cemlib.study.plan import Plan
from cemlib.study.systems import jobs_of, read_study

EVERY_DEFENCE = "all defences"
TABLE = (
    "Means over the seeds, or differences from the reference on the same seeds. The notes above the"
    " tables explain how to read them."
)
STRIP = (
    "Above the originals, below their reconstructions by this attack on this defence's run of the"
    " first seed. They are grey if the run or the attack failed."
)
FURTHER = {"pctc": "Collaborative labelling", "federated": "Federated learning"}
SCHEDULE = {
    LogEvent.JOB_FINISHED,
    LogEvent.JOB_INFO,
    LogEvent.JOB_STARTED,
    LogEvent.PROGRESS,
    LogEvent.RESOURCES_INFO,
    LogEvent.RUN_INFO,
}
CAPTIONS = tempfile.TemporaryDirectory(prefix="cemlib-captions-")


def given():
    """Return the study that was given, or the embedded one."""
    # Snakemake's own reader accepts duplicate keys, runs templates, and does not know `extends`.
    files = [Path(file) for file in workflow.configfiles]
    settings = resolved(files, workflow.config_settings.config_args or ())
    plan = Plan(parse_any(settings))
    config.update(plan.study.plain())  # for workflow/report/study.rst
    for warning in warnings_of(plan):
        print(warning, file=sys.stderr)
    system = plan.study.system
    prefix, target = ("", "all") if system == SPLIT else (f"{system}_", system)
    # The jobs read the resolved configuration, which is written when they start.
    return Planned(target, prefix, plan, jobs_of(plan), plan.layout.config)


def embedded(system):
    """Return the embedded study of a further system, whose target has the system's name."""
    file = Path(os.path.relpath(Path(workflow.basedir) / f"config/{system}.yaml"))
    return Planned(system, f"{system}_", *read_study(file), file)


def published():
    """Yield the studies with published tables; print the names of those that cannot run here."""
    # Imported here, since it imports pandas, which takes a while.
    from cemlib.report.publish import published_study

    for place in sorted(Path("results/published").glob("*/provenance.json")):
        name = place.parent.name
        try:
            plan, jobs = read_study(*published_study(place.parent))
            found = images(plan)
            if found.level != OK:
                raise ConfigError(found.found)
            same = [each for each in STUDIES if each.plan.layout == plan.layout]
            if same and same[0].plan != plan:
                raise ConfigError("another study has its results")
        except (ConfigError, FileError) as error:
            print(f"not published again: {name}: {error}", file=sys.stderr)
            continue
        new = Planned(name, f"published_{name}_", plan, jobs, plan.layout.config)
        yield same[0] if same else new


def told(study):
    """Return the file with the differences between a study's tables and the published ones."""
    return study.plan.layout.root / "published.txt"


def tell_differences():
    """Print the differences between the new tables and the published ones."""
    for study in PUBLISHED:
        if told(study).is_file():
            text = told(study).read_text().replace("\n", "\n  ").rstrip()
            print(f"{study.plan.study.experiment}\n  {text}", file=sys.stderr)


def marked(file, text, category, subcategory, title):
    """Mark a file for `snakemake --report`, with its place and its caption, read from a file."""
    name = hashlib.sha256(text.encode()).hexdigest()[:16]
    caption = Path(CAPTIONS.name) / f"{name}.rst"
    caption.write_text(text, encoding="utf-8")
    return report(
        file,
        caption=str(caption),
        category=category,
        subcategory=subcategory,
        labels={"title": title},
    )


def shown(study, file):
    """Mark a table or a figure with its place in the report, but not CSV, LaTeX and Markdown."""
    places = (study.plan.layout.tables, study.plan.layout.figures)
    if file.suffix not in (".html", ".png") or file.parent not in places:
        return file
    if heading := further(study):
        return report(file, category=heading, labels={"name": file.stem})
    if file.suffix == ".html":
        return marked(file, TABLE, "Tables", EVERY_DEFENCE, file.stem)
    figure = DRAWINGS[file.stem]
    return marked(file, figure.caption, figure.category, EVERY_DEFENCE, figure.title)


def further(study):
    """Return the heading of a further system's results, or None for split inference."""
    return FURTHER.get(study.plan.study.system)


def strips(study):
    """Mark the reconstructions of each defence's first seed, by every attack."""
    if further(study):
        return []
    attacks = [job for job in study.jobs if job.kind.startswith("attack")]
    return [
        marked(
            file,
            STRIP,
            PICTURES,
            job.of["defence"],
            file.parent.name.replace("-", ", "),
        )
        for job in attacks
        if job.of["seed"] == study.plan.study.seeds[0]
        for file in job.outputs
        if file.name == "reconstructions.png"
    ]


def log_of(study, job):
    """Return the log of a job, and whether this run of Snakemake wrote it."""
    log = study.plan.layout.logs / f"{job.name}.log"
    return log, log.is_file() and log.stat().st_mtime >= STARTED


def studies_run():
    """Return the studies with jobs in this run; the given one if nothing ran."""
    found = [each for each in EVERY if any(log_of(each, job)[1] for job in each.jobs)]
    return found or [STUDY]


def was_written(place):
    """Return whether this run of Snakemake wrote a file, or a file in a folder."""
    files = [place] if place.is_file() else filter(Path.is_file, place.iterdir())
    return any(file.stat().st_mtime >= STARTED for file in files)


def tell_places():
    """Print the paths of the pages and tables that were written, or of all if none was."""
    for study in studies_run():
        layout = study.plan.layout
        pages = [file for file in study.written if file.parent == layout.root]
        main = [*filter(Path.exists, [*pages, layout.tables])]
        parts = [*filter(Path.is_dir, layout.tables.glob("*"))]
        for place in [*filter(was_written, [*main, *parts])] or main:
            print(place.resolve(), file=sys.stderr)


def tell_failed_jobs():
    """Print the log of every failed job: it is new, and the job's outputs are missing."""
    for study in studies_run():
        for job in study.jobs:
            log, is_new = log_of(study, job)
            if is_new and not all(file.exists() for file in job.outputs):
                print(f"failed: {job.name}: {log.resolve()}", file=sys.stderr)


def tell_failed_results():
    """Print which runs and attacks diverged."""
    for study in studies_run():
        try:
            for line in failed_results(study.plan.layout.root, study.jobs):
                print(line, file=sys.stderr)
        except FileError as error:
            print(f"error: {error}", file=sys.stderr)


def print_progress(record):
    """Print the progress when a job has ended, and hide Snakemake's messages about its schedule.

    A job that ends within two seconds of the last line gets no line, unless it is the last job. A
    dry run prints Snakemake's own messages; `workflow.dryrun` is not set yet while this file is
    read.
    """
    if workflow.dryrun:
        return True
    event = getattr(record, "event", None)
    now = time.time()
    if event == LogEvent.JOB_INFO:
        MESSAGES[record.jobid] = record.rule_msg or record.rule_name
    elif event == LogEvent.JOB_FINISHED:
        LAST["job"] = MESSAGES[record.job_id]
    elif event == LogEvent.PROGRESS and (
        now - LAST["printed"] >= 2 or record.done == record.total
    ):
        left = (now - STARTED) * (record.total - record.done) / record.done
        line = f"[{record.done}/{record.total}] {LAST['job']}"
        print(f"{line} | about {duration(left)} left", file=sys.stderr)
        LAST["printed"] = now
    return event not in SCHEDULE and record.msg != "Select jobs to execute..."


try:
    STUDY = given()
    STUDIES = [STUDY]
    if not further(STUDY):
        STUDIES += [embedded(system) for system in FURTHER]
except ConfigError as error:
    files = ", ".join(map(str, workflow.overwrite_configfiles or workflow.configfiles))
    raise WorkflowError(f"{files}: the configuration cannot be used", error)

# Only on request, since their jobs make the start of Snakemake slower.
ASKED = re.compile(r"(^|[=/R])published($|_|\.txt$)")  # a target, or a file of one
PUBLISHED = list(published()) if any(map(ASKED.search, sys.argv)) else []
EVERY = [*STUDIES, *(study for study in PUBLISHED if study not in STUDIES)]

if workflow.is_main_process:
    for each in EVERY:
        age_lost_results(each.jobs)

# The profile asks for one line per job; `--quiet host` gives Snakemake's own messages.
BRIEF = Quietness.REASON in (workflow.output_settings.quiet or ())
STARTED = time.time()
MESSAGES = {}  # of jobs, by their numbers
LAST = {"job": "", "printed": 0.0}
if BRIEF:
    logger.addFilter(print_progress)
set_for_jobs()
