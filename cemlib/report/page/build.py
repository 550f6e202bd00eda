"""Writing the results page."""

import base64
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import yaml
from jinja2 import Environment, StrictUndefined
from PIL import Image, UnidentifiedImageError

from cemlib.records.files import FileError, write_text
from cemlib.records.seal import read_sealed
from cemlib.report.claims import sentences, warnings
from cemlib.report.collect import collect
from cemlib.report.comparisons import comparisons_table
from cemlib.report.figures import CATEGORIES, FIGURES, Drawing, drawing
from cemlib.report.page import STYLE, TEMPLATE
from cemlib.report.page.head import facts, failures, jobs
from cemlib.report.tables import summary_table
from cemlib.report.texts import comparisons_document, summary_document
from cemlib.report.writer import html_table

_DATA = ("classes", "counts", "image_shape")
_RESULT = ("kind", "defence", "seed", "status", "reason", "provenance", "wall_seconds")


@dataclass(frozen=True)
class Picture:
    """A figure of the report within the page; of several in a series only the first is open."""

    drawing: Drawing
    source: str
    width: int
    height: int
    is_open: bool


def write_page(
    run_metrics: Sequence[Path],
    attack_metrics: Sequence[Path],
    out: Path,
    *,
    data: Path,
    figures: Sequence[Path],
    settings: Mapping[str, Any],
    stale: Sequence[str] = (),
) -> Path:
    """Write a study's page.

    Args:
        run_metrics: ``metrics.json`` of every run.
        attack_metrics: ``metrics.json`` of every attack.
        out: the file to write.
        data: description of the prepared data.
        figures: PNGs of the report.
        settings: the configuration with its defaults; names the order of the defences.
        stale: lines that say which results are of other settings than these.

    Returns:
        The file.

    Raises:
        FileError: if a file is missing, damaged or not as its job wrote it.
        ValueError: if a result's defence is not in the configuration.
    """
    runs, attacks = collect(run_metrics, attack_metrics)
    defences, described = tuple(settings["defences"]), read_sealed(data, _DATA)
    records = {path: read_sealed(path, _RESULT) for path in (*run_metrics, *attack_metrics)}
    compared = comparisons_table(runs, attacks, defences, settings["reference"])
    summary = summary_table(runs, attacks, defences)
    text = _rendered(
        experiment=settings["experiment"],
        facts=facts(settings, described, runs, attacks, records),
        stale=stale,
        failures=failures(runs, attacks),
        claims=sentences(compared),
        warnings=warnings(summary),
        summary=summary_document(summary),
        comparisons=comparisons_document(compared),
        sections=_sections(figures),
        jobs=jobs(records.values()),
        settings=_settings(settings),
    )
    write_text(out, text)
    return out


def _rendered(**content: Any) -> str:
    """Return the page; the same text for the same content.

    Every value is escaped where it is put in. The policy in the head lets a browser apply the one
    style whose checksum it names, show pictures that are in the page, run no script and fetch
    nothing.
    """
    style, template = (path.read_text(encoding="utf-8") for path in (STYLE, TEMPLATE))
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode("ascii")
    policy = (
        f"default-src 'none'; img-src data:; style-src 'sha256-{digest}';"
        " base-uri 'none'; form-action 'none'"
    )
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    page = environment.from_string(template)
    return page.render(**content, style=style, policy=policy, html_table=html_table)


def _sections(paths: Sequence[Path]) -> dict[str, list[Picture]]:
    """Return the figures by category, in the order of the table."""
    drawn = [(drawing(path.stem), path) for path in paths]
    drawn.sort(key=lambda pair: FIGURES.index(pair[0].figure))
    pictures = list(_pictures(drawn))
    return {
        category: [one for one in pictures if one.drawing.figure.category == category]
        for category in CATEGORIES
    }


def _pictures(drawn: Sequence[tuple[Drawing, Path]]) -> Iterator[Picture]:
    opened = set()
    for found, path in drawn:
        name = found.figure.name
        try:
            content = path.read_bytes()
            with Image.open(BytesIO(content)) as image:
                size = image.size
        except (OSError, UnidentifiedImageError) as error:
            raise FileError(
                f"{path}: cannot be read as a picture ({error}); draw it again"
            ) from error
        source = f"data:image/png;base64,{base64.b64encode(content).decode('ascii')}"
        yield Picture(found, source, *size, is_open=name not in opened)
        opened.add(name)


def _settings(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the configuration as YAML: what stands by itself, then each section."""
    single = {key: value for key, value in settings.items() if not isinstance(value, dict)}
    rest = {key: {key: value} for key, value in settings.items() if key not in single}
    return {
        name: yaml.safe_dump(section, sort_keys=False, allow_unicode=True)
        for name, section in ({"study": single} | rest).items()
    }
