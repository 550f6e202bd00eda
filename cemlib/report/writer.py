"""Write tables as Markdown, LaTeX, HTML and CSV, for all three systems and the results page."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from cemlib.records.files import write_text
from cemlib.records.scores import MARK, NOTE

if TYPE_CHECKING:
    import pandas as pd

Row: TypeAlias = Mapping[str, Any]
Column: TypeAlias = tuple[str, Callable[[Row], str]]
Layout: TypeAlias = tuple[str, Sequence[Column]]  # caption and columns of a table

_ESCAPES = {
    "\\": r"\textbackslash{}",
    **{character: f"\\{character}" for character in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "∞": r"$\infty$",
    "↑": r"$\uparrow$",
    "↓": r"$\downarrow$",
    "²": r"$^2$",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "α": r"$\alpha$",
    "β": r"$\beta$",
    "δ": r"$\delta$",
    "ε": r"$\varepsilon$",
    "λ": r"$\lambda$",
    "σ": r"$\sigma$",
    MARK: r"$^\dagger$",
}
_TABLE = """\
<table>
<caption>{{ table.caption }}</caption>
<thead>
<tr>{% for cell in table.titles %}<th scope="col">{{ cell }}</th>{% endfor %}</tr>
</thead>
<tbody>
{% for row in table.rows %}
<tr><th scope="row">{{ row[0] }}</th>{% for cell in row[1:] %}<td>{{ cell }}</td>{% endfor %}</tr>
{% endfor %}
</tbody>
</table>
{% if table.footnote %}
<p>{{ table.footnote }}</p>
{% endif %}
"""
_DOCUMENT = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8"/>
<title>{{ title }}</title>
<style>
body { font: 15px/1.45 system-ui, sans-serif; margin: 1.5rem; color: #1c1c1c; background: #fff; }
table { border-collapse: collapse; margin: 1.5rem 0; font-variant-numeric: tabular-nums; }
caption { text-align: left; font-weight: 600; padding-bottom: .4rem; }
th, td { padding: .2rem .7rem; text-align: right; white-space: nowrap; }
th:first-child { text-align: left; position: sticky; left: 0; background: inherit; }
thead, tbody { border-top: 2px solid; border-bottom: 2px solid; }
tbody th { font-weight: normal; }
tr { background: #fff; }
tbody tr:nth-child(even) { background: #f3f3f3; }
</style>
</head>
<body>
<h1>{{ title }}</h1>
{% for note in notes %}
<p>{{ note }}</p>
{% endfor %}
{% for table in tables %}
{{ table }}
{% endfor %}
</body>
</html>
"""


@dataclass(frozen=True)
class Table:
    """The text of one table."""

    caption: str
    titles: Sequence[str]
    rows: Sequence[Sequence[str]]

    @property
    def footnote(self) -> str:
        """Return the explanation of the mark of unconverged attacks; empty if no cell has it."""
        return NOTE if any(MARK in cell for row in self.rows for cell in row) else ""


@dataclass(frozen=True)
class Document:
    """Tables under a title, with notes for their reader."""

    title: str
    notes: Sequence[str]
    tables: Sequence[Table]


def laid_out(caption: str, frame: "pd.DataFrame", columns: Sequence[Column]) -> Table:
    """Return the table of a frame, given each column's title and the function that makes cells."""
    records: list[Any] = frame.to_dict("records")
    rows = [[cell(row) for _, cell in columns] for row in records]
    return Table(caption, [title for title, _ in columns], rows)


def write_table(
    folder: Path, name: str, frame: "pd.DataFrame", layout: Layout, notes: Sequence[str]
) -> Iterator[Path]:
    """Write one table in every format; yield the files."""
    caption, columns = layout
    document = Document(caption, notes, [laid_out(caption, frame, columns)])
    texts = {"md": markdown(document), "tex": latex(document), "html": html(document)}
    for extension, text in ({"csv": csv(frame)} | texts).items():
        path = folder / f"{name}.{extension}"
        write_text(path, text)
        yield path


def csv(frame: "pd.DataFrame") -> str:
    """Return a frame as CSV, with unrounded numbers."""
    return frame.to_csv(index=False, lineterminator="\n")


def markdown(document: Document) -> str:
    """Return a document in Markdown, the captions of its tables as headings."""
    tables = [markdown_table(table) for table in document.tables]
    alone = [table.caption for table in document.tables] == [document.title]
    title = [] if alone else [f"# {document.title}"]
    return "\n\n".join([*title, *document.notes, *tables]) + "\n"


def latex(document: Document) -> str:
    """Return a document's tables in LaTeX; they need the package ``booktabs``."""
    notes = "\n".join(f"% {escape(note)}" for note in document.notes)
    return "\n\n".join([notes, *map(_latex_table, document.tables)]) + "\n"


def html(document: Document) -> str:
    """Return a document as one HTML page, with every name and reason escaped."""
    tables = map(html_table, document.tables)
    return rendered(_DOCUMENT, title=document.title, notes=document.notes, tables=tables)


def html_table(table: Table) -> Markup:
    """Return one table with its footnote in HTML."""
    return Markup(rendered(_TABLE, table=table))


def escape(text: str) -> str:
    """Return a text with LaTeX's special characters escaped."""
    return "".join(_ESCAPES.get(character, character) for character in text)


def rendered(template: str, **content: Any) -> str:
    """Return an HTML template with its content filled in, every value escaped."""
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(template).render(content)


def markdown_table(table: Table) -> str:
    """Return a table in Markdown, under its caption if it has one."""
    rule = ["---"] + ["---:"] * (len(table.titles) - 1)
    lines = [
        f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"
        for row in (table.titles, rule, *table.rows)
    ]
    title = f"## {table.caption}" if table.caption else ""
    parts = [title, "\n".join(lines), table.footnote]
    return "\n\n".join(part for part in parts if part)


def _latex_table(table: Table) -> str:
    """Return a narrow table, with units below the titles and spreads in small type."""
    heads = [title.partition(" [") for title in table.titles]
    names, units = [name for name, _, _ in heads], [bar.strip() + unit for _, bar, unit in heads]
    rows = [" & ".join(map(_latex_cell, row)) + r" \\" for row in (names, units, *table.rows)]
    lines = [
        r"\begin{table}",
        r"\centering\footnotesize\setlength{\tabcolsep}{4pt}",
        rf"\caption{{{escape(table.caption)}}}",
        rf"\begin{{tabular}}{{@{{}}l{'r' * (len(table.titles) - 1)}@{{}}}}",
        r"\toprule",
        *rows[: 2 if any(units) else 1],
        r"\midrule",
        *rows[2:],
        r"\bottomrule",
        r"\end{tabular}",
        *([rf"\par\smallskip {escape(table.footnote)}"] if table.footnote else []),
        r"\end{table}",
    ]
    return "\n".join(lines)


def _latex_cell(text: str) -> str:
    mean, sign, half = text.partition(" ± ")
    spread = rf"\,{{\scriptsize$\pm$\,{escape(half)}}}" if sign else ""
    return escape(mean) + spread
