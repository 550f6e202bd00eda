"""The summary and the comparisons as HTML: one file each, which needs no other file or network."""

import math
from collections.abc import Sequence

import pandas as pd
from jinja2 import Environment

from cemlib.marks import marked
from cemlib.report.claims import COMPARED, is_unconverged
from cemlib.report.render import Table, seeds_note, spans, tables
from cemlib.report.tables import records

_PAGE = """\
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
thead th[colspan] { text-align: left; }
thead tr:first-child th { border-top: 2px solid; }
thead tr:last-child th { border-bottom: 1px solid; }
tbody th { font-weight: normal; }
tr { background: #fff; }
tbody tr:nth-child(even) { background: #f3f3f3; }
tbody tr:last-child > * { border-bottom: 2px solid; }
</style>
</head>
<body>
<h1>{{ title }}</h1>
{% for note in notes %}
<p>{{ note }}</p>
{% endfor %}
{% for table in tables %}
<table>
<caption>{{ table.caption }}</caption>
<thead>
{% if table.groups | select | list %}
<tr>
{% for group, first, last in spans(table.groups) %}
<th colspan="{{ last - first + 1 }}">{{ group }}</th>
{% endfor %}
</tr>
{% endif %}
<tr>
{% for cell in table.titles %}
<th scope="col">{{ cell }}</th>
{% endfor %}
</tr>
</thead>
<tbody>
{% for row in table.rows %}
<tr>
<th scope="row">{{ row[0] }}</th>
{% for cell in row[1:] %}
<td>{{ cell }}</td>
{% endfor %}
</tr>
{% endfor %}
</tbody>
</table>
{% if table.footnote %}
<p>{{ table.footnote }}</p>
{% endif %}
{% endfor %}
</body>
</html>
"""
_COMPARISON_TITLES = (
    "defence",
    "difference",
    "95 % interval",
    "over seeds and images",
    "g_z",
    "p",
    "p, permutation",
    "p, Holm in this table",
    "p, Holm in the study",
    "pairs of seeds",
    "verdict",
)
_COMPARISON_NOTES = (
    "Paired over the seeds: defence minus reference. MSE, SSIM, PSNR and identification are of"
    " the worst case on one release of an image.",
    "The 95 % interval is Student's, over the seeds: what training again would give. The one over"
    " seeds and images is a bootstrap: what other test images of the same kind would give.",
    "g_z is the difference in standard deviations of the paired differences, corrected for few"
    " seeds. p is of the paired t-test; the permutation test of signs beside it cannot go below"
    " 2 / 2^n with n pairs.",
    "The verdict is at 5 % after Holm's correction over all comparisons of the study, those of"
    " every table here.",
)


def summary_html(summary: pd.DataFrame) -> str:
    """Every table of the summary, as `cemlib.report.render.markdown` lays them out."""
    return html_page("Accuracy and privacy", [seeds_note(summary)], tables(summary))


def comparisons_html(comparisons: pd.DataFrame) -> str:
    """The paired differences: one table for each score and knowledge.

    Args:
        comparisons: as `cemlib.report.comparisons.comparisons_table` returns it.
    """
    families = comparisons.groupby(["metric", "knowledge"], sort=False)
    found = [_comparison(str(metric), str(known), rows) for (metric, known), rows in families]
    return html_page("Differences to the reference", _COMPARISON_NOTES, found)


def html_page(title: str, notes: Sequence[str], tables: Sequence[Table]) -> str:
    """The document; whatever a name or a reason holds is text and never a tag."""
    environment = Environment(autoescape=True, trim_blocks=True)
    page = environment.from_string(_PAGE)
    return page.render(title=title, notes=notes, tables=tables, spans=spans)


def _comparison(metric: str, knowledge: str, rows: pd.DataFrame) -> Table:
    score = COMPARED[metric]
    where = f", {knowledge}" if knowledge else ""
    cells = tuple(
        (
            row["defence"],
            marked(_signed(score.scale * row["difference"]), is_unconverged(row)),
            _interval(score.scale * row["ci_low"], score.scale * row["ci_high"]),
            _interval(score.scale * row["boot_low"], score.scale * row["boot_high"]),
            _signed(row["g_z"]),
            *(_unsigned(row[name]) for name in ("p", "p_permutation", "p_holm", "p_holm_study")),
            str(row["n_pairs"]),
            row["verdict"],
        )
        for row in records(rows)
    )
    caption = f"{score.heading}{where}: difference to {rows['reference'].iloc[0]}"
    return Table(caption, ("",) * len(_COMPARISON_TITLES), _COMPARISON_TITLES, cells)


def _signed(number: float) -> str:
    return "-" if math.isnan(number) else f"{number:+.3g}"


def _interval(low: float, high: float) -> str:
    return "-" if math.isnan(low) else f"{_signed(low)} to {_signed(high)}"


def _unsigned(number: float) -> str:
    return "-" if math.isnan(number) else f"{number:.3g}"
