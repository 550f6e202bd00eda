"""Tables and figures of a study, made from the files of its result folder and nothing else.

`cemlib.report.build` writes them; `cemlib.report.figures` is the table of all figures. Only names
are here, so that a workflow can ask for them without loading pandas and matplotlib.
"""

TABLES = (
    "runs.csv",
    "summary.csv",
    "comparisons.csv",
    "summary.md",
    "summary.tex",
    "summary.html",
    "comparisons.html",
    "claims.md",
)
SWEEP_TABLES = ("tradeoff.csv",)  # of a study that has sweeps
WHOLE, OF_RUNS = "figures", "training_figures"  # those of the whole study, and of its runs alone
