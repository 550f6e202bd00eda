"""The documentation: the site builds without a warning, links lead somewhere, examples hold."""

import doctest
import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from bs4 import BeautifulSoup

ROOT = Path(__file__).parent.parent
PAGES = [
    *sorted((ROOT / "docs").rglob("*.md")),
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "config/README.md")),
]
EXAMPLES = [
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for path in sorted((ROOT / "cemlib").rglob("*.py"))
    if ">>> " in path.read_text(encoding="utf-8")
]
FENCE = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^()\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    for package in ("sphinx", "myst_parser", "furo"):
        pytest.importorskip(package)
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-n", "-q", "-b", "html"]
    # As `make docs`, without the pages of source code, which take a quarter of the time.
    command += ["-D", "extensions=myst_parser,sphinx.ext.autodoc,sphinx.ext.napoleon"]
    built = subprocess.run([*command, ROOT / "docs", out], capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    return out


# What a browser fetches to show a page, by element and attribute.
SOURCES = {"img": "src", "script": "src", "iframe": "src", "source": "src", "link": "href"}


@pytest.mark.slow
def test_no_page_of_the_site_loads_anything_from_elsewhere(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    sources = (ROOT / "docs").rglob("*.md")
    assert {page.relative_to(site).with_suffix("") for page in pages} >= {
        source.relative_to(ROOT / "docs").with_suffix("") for source in sources
    }
    for page in pages:
        found = BeautifulSoup(page.read_text(encoding="utf-8"), "html.parser")
        loaded = [tag[key] for name, key in SOURCES.items() for tag in found(name, {key: True})]
        assert loaded
        for source in loaded:
            assert not re.match(r"(\w+:)?//", source), f"{page.name} loads {source}"
            assert (page.parent / re.split("[?#]", source)[0]).exists(), (
                f"{page.name} lacks {source}"
            )
    for style in site.rglob("*.css"):
        assert not re.search(r"(url\(|@import)\W*https?:", style.read_text(encoding="utf-8"))


@pytest.mark.slow
def test_formulas_of_docstrings_keep_their_lines(site: Path) -> None:
    page = (site / "api/surrogates.html").read_text(encoding="utf-8")
    formula = re.search(r"<pre>((?!</pre>).)*alpha = softmax_i.*?</pre>", page, re.DOTALL)
    text = re.sub(r"<[^>]+>", "", formula[0]).splitlines()
    assert [line.split(" = ")[0] for line in text if " = " in line][:3] == ["alpha", "mu", "L_c"]


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    for link in LINK.findall(text):
        if not re.match(r"\w+://|mailto:", link):
            path, _, anchor = link.partition("#")
            target = (page.parent / path).resolve() if path else page
            assert target.exists(), f"{name(page)}: {link} does not exist"
            assert not anchor or anchor in anchors(target), f"{name(page)}: {link}: no such heading"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_tests_that_a_page_names_exist(page: Path) -> None:
    there = {path.name for path in (ROOT / "tests").rglob("test_*.py")}
    assert set(re.findall(r"\btest_\w+\.py\b", page.read_text(encoding="utf-8"))) <= there


def anchors(page: Path) -> Iterator[str]:
    """The headings of a page as a code-hosting site names them, and the documentation site."""
    for heading in HEADING.findall(FENCE.sub("", page.read_text(encoding="utf-8"))):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        yield re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")


@pytest.mark.parametrize("module", EXAMPLES)
def test_examples_in_docstrings_hold(module: str) -> None:
    failed, tried = doctest.testmod(importlib.import_module(module))
    assert tried > 0
    assert failed == 0


@pytest.mark.parametrize("page", [p for p in PAGES if "\n>>> " in p.read_text()], ids=name)
def test_examples_in_pages_hold(page: Path) -> None:
    text = re.sub(r"^ *```.*$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    examples = doctest.DocTestParser().get_doctest(text, {}, name(page), str(page), 0)
    failed, tried = doctest.DocTestRunner().run(examples)
    assert tried > 0
    assert failed == 0


@pytest.mark.parametrize("page", ["search", "genindex", "modindex", "py-modindex"])
def test_no_page_has_the_name_of_one_that_sphinx_writes(page: str) -> None:
    """Sphinx would replace it without a word."""
    assert not (ROOT / f"docs/{page}.md").exists()
