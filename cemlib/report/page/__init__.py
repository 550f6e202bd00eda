"""The results page of a study: one HTML file that reads the result folder and needs nothing else.

`build` writes it; the tables are those of the report, the pictures its figures. Only names are
here, so that a workflow can ask for them without pandas.
"""

from pathlib import Path

PAGE = "index.html"
TEMPLATE, STYLE = (Path(__file__).with_name(name) for name in ("template.html", "page.css"))
