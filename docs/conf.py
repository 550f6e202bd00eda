"""Sphinx builds the documentation site from these pages and from the docstrings: `make docs`."""

import os
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

from cemlib import __version__

DOCS = Path(__file__).parent
ROOT = DOCS.parent
README = ROOT / "README.md"
# Pages that lie elsewhere in the repository; the site shows them in the place of their pointers.
ELSEWHERE = {
    "configuration": ROOT / "config/README.md",
    "contributing": ROOT / "CONTRIBUTING.md",
    "changelog": ROOT / "CHANGELOG.md",
}
PAGES = {file: DOCS / f"{page}.md" for page, file in ELSEWHERE.items()}
PAGES[README] = DOCS / "index.md"
LINK = re.compile(r"(?P<label>!?\[[^\]]*\])\((?P<path>[^()\s#:]+)(?P<anchor>#[^()\s]*)?\)")

project = "cemlib"
author = "The cemlib authors"
copyright = author
version = release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
myst_heading_anchors = 3
default_role = "py:obj"
highlight_language = "none"  # formulas are no Python; examples are still recognised
napoleon_numpy_docstring = False
napoleon_use_ivar = True
autodoc_default_options = {"show-inheritance": True}
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
toc_object_entries_show_parents = "hide"
maximum_signature_line_length = 90
# A name in backticks is linked where it is a documented one; types of other libraries have no page.
nitpick_ignore_regex = [
    ("py:obj", ".*"),
    ("py:class", r"(torch|nn|numpy|pandas|matplotlib|pydantic|pathlib|abc|collections|PIL)\..*"),
    ("py:class", r"(Tensor|NDArray|pd\.Series|(list\[)?dict\[str)"),
    ("py:class", r"(cemlib\.(config|surrogates\.tiles)\..*|.*\.StudyT|.*\._.*)"),
]

html_theme = "furo"
html_title = f"cemlib {__version__}"
html_copy_source = False
html_static_path = ["_static"]
html_css_files = ["site.css"]


def take_in(app: Sphinx, page: str, source: list[str]) -> None:
    """Read a page that lies elsewhere, and point links to the repository at pages of the site."""
    file = ELSEWHERE.get(page, DOCS / f"{page}.md")
    if page in ELSEWHERE:
        source[0] = file.read_text(encoding="utf-8")
        app.env.note_dependency(str(file))
    lead = partial(_lead, here=file.parent, there=(DOCS / page).parent)
    source[0] = LINK.sub(lead, source[0])


def _lead(link: re.Match[str], here: Path, there: Path) -> str:
    """Return a link with its path relative to the page, or its label if it leads to a folder."""
    target = Path(os.path.normpath(here / link["path"]))
    if target.is_dir():
        return link["label"][1:-1]
    path = os.path.relpath(PAGES.get(target, target), there)
    # The site has a front page of its own, without the README's headings.
    anchor = None if target == README else link["anchor"]
    return f"{link['label']}({path}{anchor or ''})"


def show_formulas(*event: Any) -> None:
    """Keep the lines of formulas, which docstrings set apart by a blank line and an indent."""
    lines: list[str] = event[-1]
    lines[:] = list(_marked(lines))


def _marked(lines: list[str]) -> Iterator[str]:
    """Yield the lines with reStructuredText's mark of a literal block before indented ones."""
    indent, blank = 0, False
    for line in lines:
        depth = len(line) - len(line.lstrip())
        if line.strip():
            if blank and depth >= indent + 4:
                yield from (" " * indent + "::", "")
                indent = depth
            elif depth < indent or not blank:
                indent = depth
        blank = not line.strip()
        yield line


def setup(app: Sphinx) -> None:
    """Connect the functions above to Sphinx's events; Sphinx calls it."""
    app.connect("source-read", take_in)
    app.connect("autodoc-process-docstring", show_formulas, priority=400)  # before napoleon
