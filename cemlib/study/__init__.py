"""A study as a list of jobs: what a job is, whether it is finished, and what carries the list out.

Each system is a function from a study to such a list: `split`, `labelling` and `federated` hold
one each, `systems` all three. `plan` is a study with its place, `job` one job, `finished` says
which need not run again, `standing` how far results are. `crew` has the processes that carry jobs
out and `process` what each of them does, `schedule` gives them the jobs; so a whole study runs
without Snakemake and MLflow. `rules` turns the same list into the workflow's rules. `catalogue` and
`inspection` are for those who look: what a study can name, and what one result is.
"""
