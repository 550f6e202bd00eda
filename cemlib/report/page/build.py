"""Write the results page."""

import base64
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from cemlib.records.files import FileError, write_text
from cemlib.records.seal import read_sealed
from cemlib.report.build import Results
from cemlib.report.claims import sentences, warnings
from cemlib.report.figures import CATEGORIES, DRAWINGS, Figure
from cemlib.report.page import STYLE, TEMPLATE
from cemlib.report.page.head import facts, failures, jobs
from cemlib.report.texts import comparisons_document, summary_document
from cemlib.report.writer import html_table, rendered

_DATA = ("classes", "counts", "image_shape")
_RESULT = ("kind", "defence", "seed", "status", "reason", "provenance", "wall_seconds")


class Picture(NamedTuple):
    """A figure within the page; of several in a series only the first is open."""

    figure: Figure
    source: str
    is_open: bool


def write_page(
    results: Results,
    metrics: Sequence[Path],
    out: Path,
    *,
    data: Path,
    figures: Sequence[Path],
    settings: Mapping[str, Any],
    stale: Sequence[str] = (),
) -> Path:
    """Write a study's page and return its file.

    Args:
        results: results of runs and attacks.
        metrics: the ``metrics.json`` of each, which say where the results come from.
        out: the file to write.
        data: description of the prepared data.
        figures: PNGs of the report.
        settings: the configuration with its defaults.
        stale: lines that say which results are of other settings than these.

    Raises:
        FileError: if a file is missing, damaged or not as its job wrote it.
    """
    described = read_sealed(data, _DATA)
    records = {path: read_sealed(path, _RESULT) for path in metrics}
    text = _page(
        experiment=settings["experiment"],
        facts=facts(settings, described, results, records),
        stale=stale,
        failures=failures(results),
        claims=sentences(results.compared),
        warnings=warnings(results.summary),
        summary=summary_document(results.summary),
        comparisons=comparisons_document(results.compared),
        sections=_sections({path.stem: path for path in figures}),
        jobs=jobs([*records.values()]),
        settings=yaml.safe_dump(dict(settings), sort_keys=False, allow_unicode=True),
    )
    write_text(out, text)
    return out


def _page(**content: Any) -> str:
    """Return the page.

    The policy in the head lets a browser apply the one style whose checksum it names, show pictures
    that are in the page, run no script and fetch nothing.
    """
    style, template = (path.read_text(encoding="utf-8") for path in (STYLE, TEMPLATE))
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode("ascii")
    policy = (
        f"default-src 'none'; img-src data:; style-src 'sha256-{digest}';"
        " base-uri 'none'; form-action 'none'"
    )
    return rendered(template, **content, style=style, policy=policy, html_table=html_table)


def _sections(files: Mapping[str, Path]) -> dict[str, list[Picture]]:
    """Return the pictures by category, in the order of the table of figures."""
    pictures = list(_pictures(files))
    return {
        category: [picture for picture in pictures if picture.figure.category == category]
        for category in CATEGORIES
    }


def _pictures(files: Mapping[str, Path]) -> Iterator[Picture]:
    opened = set()
    for name, figure in DRAWINGS.items():
        if name in files:
            try:
                content = base64.b64encode(files[name].read_bytes()).decode("ascii")
            except OSError as error:
                raise FileError(
                    f"{files[name]}: cannot be read ({error}); draw it again"
                ) from error
            source = f"data:image/png;base64,{content}"
            yield Picture(figure, source, is_open=figure.function not in opened)
            opened.add(figure.function)
