"""The search for the strength of a defence, on a study's validation images alone.

`study` makes the study that a search trains, with no test image in it; `validation` scores one of
its runs; `trials` carries runs out. `bracket` and `match` find the strength at which a defence
reaches an accuracy.
"""
