# What all systems share, and which of them the configuration is about.
import os
import sys
from pathlib import Path

from cemlib.config import ConfigError
from cemlib.config.extending import resolved
from cemlib.config.load import SPLIT, load_as
from cemlib.environment import set_for_jobs
from cemlib.systems import SYSTEMS, system_of


def unusable(error):
    """The error that ends Snakemake where a configuration is faulty."""
    files = ", ".join(map(str, workflow.overwrite_configfiles or workflow.configfiles))
    return WorkflowError(f"{files}: the configuration cannot be used", error)


def embedded(system):
    """The study of a system that there is without one of the user's."""
    return Path(workflow.basedir) / f"config/{system}.yaml"


def planned(system):
    """A system's plan, checked before any job: of the study that was given, or the embedded one."""
    try:
        if SYSTEM == system:
            return SYSTEMS[system].plan(SETTINGS)
        return load_as(embedded(system), SYSTEMS[system].plan)
    except ConfigError as error:
        raise unusable(error)


def config_of(system, plan):
    """What jobs read: with defaults and what the command line replaced, written as they start."""
    return plan.layout.config if SYSTEM == system else os.path.relpath(embedded(system))


def relative(files):
    """Source files from the working directory: a moved checkout is not a changed input."""
    return [os.path.relpath(file) for file in files]


def named(file, category):
    """A file that `snakemake --report` shows under its name."""
    return report(file, category=category, labels={"name": file.stem})


def displayed(files, ending, category):
    """Files, those of one ending marked for the report."""
    return [named(file, category) if file.suffix == ending else file for file in files]


try:
    # Snakemake's own reader lets a key given twice pass, runs what a template says, and knows
    # nothing of files that extend others.
    SETTINGS = resolved([Path(file) for file in workflow.configfiles], config)
    SYSTEM = system_of(SETTINGS)
except ConfigError as error:
    raise unusable(error)

set_for_jobs()
