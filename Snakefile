"""Train defended classifiers, attack them, and end in tables, figures and MLflow runs."""

import os
import sys

from snakemake.exceptions import WorkflowError
from snakemake.utils import min_version

min_version("9.27")

# A study given by --configfile replaces the embedded default; it is never merged with it.
if not workflow.overwrite_configfiles:

    configfile: "config/config.yaml"


container: "docker://python:3.11-slim"


include: "workflow/rules/common.smk"
include: "workflow/rules/prepare.smk"
include: "workflow/rules/train.smk"
include: "workflow/rules/attack.smk"
include: "workflow/rules/report.smk"
include: "workflow/rules/track.smk"


# Not before: a dry run with other settings must not change what running jobs read.
onstart:
    PLAN.write_config()
    # With a rate limit, the scheduler goes through all ready jobs every second, once for each job
    # that has ended: after a hundred, that fills a core. Here the cores limit the jobs.
    if not workflow.remote_exec:
        workflow.scheduler.job_rate_limiter = None


# The last lines say which results are failed ones: their jobs are no errors, so the code is 0.
onsuccess:
    tell_failed_results()


onerror:
    tell_failed_results()


rule all:
    input:
        PLAN.tables(),
        PLAN.figures(),
        PLAN.cluster_course(),
        PLAN.surrogate_courses(),
        PLAN.page(),
        PLAN.layout.tracked(),


# `snakemake gated` does everything for one defence: its runs, attacks, tables and MLflow runs.
for defence in PLAN.study.defences:

    rule:
        name:
            defence
        input:
            PLAN.tables(defence),
            PLAN.layout.tracked(defence),
