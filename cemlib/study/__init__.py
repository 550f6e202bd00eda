"""A study as a list of jobs: what a job is, whether it is finished, and what carries the list out.

Each system (split inference, collaborative labelling, federated learning) is a function from its
plan to such a list. `job` says what a job is, `finished` which need not run again, `base` what the
plans of all systems share, `crew` has the processes that carry jobs out and `process` what each of
them does, `schedule` gives them the jobs. So a whole study runs without Snakemake and MLflow, and
leaves the files that the workflow leaves, made by the same functions.
"""
