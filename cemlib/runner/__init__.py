"""A whole study in one process with helpers, where there is no Snakemake and no MLflow.

It leaves the files that the workflow leaves, made by the same functions. `graph` has the jobs and
what they wait for, `finished` says which need not run again, `crew` has the processes that carry
them out, `schedule` gives them the jobs.
"""

from cemlib.runner.schedule import StudyError, run_study

__all__ = ["StudyError", "run_study"]
