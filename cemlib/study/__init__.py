"""A study as a list of jobs: what a job is, whether it is finished, and what runs the list.

Each system is a function from a study to such a list: `split`, `labelling` and `federated` hold one
each, `systems` all three. `plan` is a study with its place and `job` one job; `finished` tells
which jobs need not run again, `status` the status and content of results. `schedule` runs a list
without Snakemake, in the processes of `workers`, set up by `environment`; `rules` turns it into the
workflow's rules. `catalogue` lists what a study can name, and `requirements` what it needs.
"""
