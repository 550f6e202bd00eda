"""Whether a machine can carry out a study: what is there, what is missing, and what to do.

`machine` looks at programs, libraries and devices, `study` at data, disk and the MLflow store.
Nothing here writes a file or uses the network, but for one bounded question to an MLflow server
that the user named.
"""
