"""What a study will take of time and memory, extrapolated from a few real steps of its jobs.

Each kind of job is built from the study's own data and settings in a process of its own, and takes
a few steps there. So whatever a configuration can name is measured by what it does.
"""
