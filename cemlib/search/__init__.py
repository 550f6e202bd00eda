"""What is found out before a study runs: the strength of a defence, and what the study will take.

`study` makes the study that a search trains, with no test image in it; `validation` scores one of
its runs; `trials` carries runs out. `bracket` and `match` find the strength at which a defence
reaches an accuracy. `estimate` extrapolates time and memory from a few steps of each kind of job.
"""
