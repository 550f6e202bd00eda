"""Train defended classifiers, attack them, and end in tables, figures and MLflow runs."""

from snakemake.utils import min_version

min_version("9.27")

# A study given by --configfile replaces the embedded default; it is never merged with it.
if not workflow.overwrite_configfiles:

    configfile: "config/config.yaml"


# Only for `--software-deployment-method apptainer`; the Dockerfile says how it is built.
container: "cemlib.sif"


# A study that names no system is about split inference; beside it are the embedded studies of the
# other systems, which `snakemake` alone does not run.
include: "workflow/rules/common.smk"


# The first target is the default.
for EACH in STUDIES:

    rule:
        name:
            EACH.target
        input:
            EACH.written,
            strips(EACH),
            EACH.plan.layout.tracked(),
        message:
            EACH.target if BRIEF else None


include: "workflow/rules/jobs.smk"


if SYSTEM == SPLIT:

    include: "workflow/rules/split.smk"


if PUBLISHED:

    include: "workflow/rules/published.smk"


# Not before: a dry run with other settings must not change what running jobs read.
onstart:
    for each in [STUDY, *PUBLISHED]:
        each.plan.write_config()
    # With a rate limit, the scheduler goes through all ready jobs every second, once for each job
    # that has ended: after a hundred, that fills a core. Here the cores limit the jobs.
    if not workflow.remote_exec:
        workflow.scheduler.job_rate_limiter = None


# The last lines say which results are failed ones: their jobs are no errors, so the code is 0.
onsuccess:
    tell_failed_results()
    tell_differences()
    tell_places()


onerror:
    tell_failed_results()
    tell_places()
    tell_failed_jobs()
