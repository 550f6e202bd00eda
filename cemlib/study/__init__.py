"""A study as a list of jobs: what a job is, whether it is finished, and what runs the list.

Each system is a function from a study to such a list, in `split`, `labelling` and `federated`.
`plan` is a study with its place and `job` one job; `finished` tells which jobs need not run again,
`status` how results ended. `schedule` runs a list without Snakemake, in the processes of `workers`;
`rules` turns it into the workflow's rules. `catalogue` lists what a study can name, and
`requirements` checks what it needs.
"""
