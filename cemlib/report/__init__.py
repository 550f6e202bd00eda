"""Tables, figures and the results page of a study, made from the files of its result folder.

Only names are here, so that a workflow can ask for them without loading pandas and matplotlib.
`cemlib.report.build` writes tables and figures, `cemlib.report.page` the page.
"""

from pathlib import Path

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
SWEEP_TABLES = ("tradeoff.csv", "tradeoff.md", "tradeoff.tex", "tradeoff.html")  # with sweeps
WHOLE, OF_RUNS = "figures", "training_figures"  # figures of the whole study, and of its runs alone
PAGE = "index.html"
TEMPLATE, STYLE = (Path(__file__).with_name(name) for name in ("page.html", "page.css"))
