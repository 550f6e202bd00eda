"""Find out two things before a study runs: the strength of a defence, and the cost of the study.

`match` trains a defence at strengths that `bracket` chooses, until it reaches an accuracy on
validation images. `estimate` extrapolates time and memory from a few steps of each kind of job.
"""
