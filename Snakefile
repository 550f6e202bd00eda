"""Train defended classifiers, attack them, and make tables, figures and MLflow runs."""

from snakemake.utils import min_version

min_version("9.27")

# A study given by --configfile replaces the embedded default; it is never merged with it.
if not workflow.overwrite_configfiles:

    configfile: "config/config.yaml"


# Only for `--software-deployment-method apptainer`; the Dockerfile says how it is built.
container: "cemlib.sif"


# A study that names no system is about split inference. The embedded studies of the other systems
# are targets beside it, which `snakemake` alone does not run.
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


if not further(STUDY):

    include: "workflow/rules/split.smk"


if PUBLISHED:

    include: "workflow/rules/published.smk"


# Only now, since a dry run with other settings must not change what running jobs read.
onstart:
    needed = {job.rule.name for job in workflow.dag.needrun_jobs()}
    for each in EVERY:
        if each is STUDY or any(rule.name in needed for rule in each.rules):
            each.plan.write_config()
    # With a rate limit, the scheduler goes through all ready jobs once for each ended job, every
    # second, which fills a core after a hundred jobs. Here the cores limit the jobs.
    if not workflow.remote_exec:
        workflow.scheduler.job_rate_limiter = None


# The last lines name the failed results. Their jobs do not count as errors, so the exit code is 0.
onsuccess:
    tell_failed_results()
    tell_differences()
    tell_places()


onerror:
    tell_failed_results()
    tell_places()
    tell_failed_jobs()
