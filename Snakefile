"""Train defended classifiers, attack them, and end in tables, figures and MLflow runs."""

from snakemake.exceptions import WorkflowError
from snakemake.utils import min_version

min_version("9.27")

# A study given by --configfile replaces the embedded default; it is never merged with it.
if not workflow.overwrite_configfiles:

    configfile: "config/config.yaml"


# Only for `--software-deployment-method apptainer`; the Dockerfile says how it is built.
container: "cemlib.sif"


include: "workflow/rules/systems.smk"


# The first target is the default. A study that names no system is about split inference; beside it are
# the embedded studies of the other systems, which `snakemake` alone does not run.
if SYSTEM == "split":

    include: "workflow/rules/split.smk"

    rule all:
        input:
            PLAN.tables(),
            PLAN.figures(),
            PLAN.cluster_course(),
            PLAN.surrogate_courses(),
            PLAN.page(),
            PLAN.layout.tracked(),


if SYSTEM in ("split", "pctc"):

    include: "workflow/rules/labelling.smk"

    rule pctc:
        input:
            PCTC.tables(),
            PCTC.figures(),
            PCTC.layout.tracked(),


if SYSTEM in ("split", "federated"):

    include: "workflow/rules/federated.smk"

    rule federated:
        input:
            FEDERATED.tables(),
            FEDERATED.figures(),
            FEDERATED.layout.tracked(),
