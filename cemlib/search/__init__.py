"""Find out two things before a study runs: the strength of a defence, and the cost of the study.

`match` searches for the strength at which a defence reaches an accuracy on validation images, by a
few trainings; `bracket` chooses the strengths to try. `estimate` extrapolates time and memory from
a few steps of each kind of job.
"""
