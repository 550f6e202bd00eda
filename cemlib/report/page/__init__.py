"""The results page of a study: one HTML file that reads the result folder and needs nothing else.

`build` writes it. `contents` is what the page says, as plain data; `study`, `summary`,
`comparisons`, `pictures`, `curves`, `drawings` and `provenance` fill it from the result files;
`render` puts it into `template.html` with `page.css` and the scripts. Only names are here, so that
a workflow can ask for them without loading pandas.
"""

from pathlib import Path

PAGE = "index.html"
SCRIPTS = ("choices.js", "table.js", "reconstructions.js", "extremes.js", "curves.js")
_FOLDER = Path(__file__).parent
TEMPLATE, STYLE = _FOLDER / "template.html", _FOLDER / "page.css"


def scripts() -> tuple[Path, ...]:
    """The page's scripts in the order in which they run."""
    return tuple(_FOLDER / name for name in SCRIPTS)


def assets() -> tuple[Path, ...]:
    """Files that decide the page beside the Python sources."""
    return (TEMPLATE, STYLE, *scripts())
