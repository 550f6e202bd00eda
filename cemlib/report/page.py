"""Write the results page: what was studied, what it shows, and where every number comes from."""

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from cemlib.records.files import FileError, write_text
from cemlib.records.seal import read_sealed
from cemlib.report import STYLE, TEMPLATE
from cemlib.report.build import Results
from cemlib.report.cells import number
from cemlib.report.claims import basis, sentences, warnings
from cemlib.report.figures import CATEGORIES, DRAWINGS, Drawing
from cemlib.report.style import readable
from cemlib.report.tables import records as rows_of
from cemlib.report.texts import comparisons_document, summary_document, tradeoff_document
from cemlib.report.writer import Column, Row, Table, html_table, laid_out, rendered

_DATA = ("classes", "counts", "image_shape", "duplicates_train_test")
_RESULT = ("kind", "defence", "seed", "status", "reason", "provenance", "wall_seconds")
_SHORT = 12  # characters of a checksum

Record = Mapping[str, Any]


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
    """Write a study's page to `out`, and return `out`.

    `metrics` are the records of the `results`, `data` the description of the prepared images,
    `settings` the configuration with its defaults; `stale` says how results differ from the study.

    Raises:
        FileError: if a file is missing, damaged or not as its job wrote it.
    """
    described = read_sealed(data, _DATA)
    records = [read_sealed(path, _RESULT) for path in metrics]
    text = _page(
        experiment=settings["experiment"],
        facts=_facts(settings, described, results, records),
        stale=stale,
        failures=_failures(results),
        claims=sentences(results.decisive),
        basis=basis(results.decisive),
        warnings=warnings(results.summary),
        summary=summary_document(results.summary),
        comparisons=comparisons_document(results.compared),
        tradeoff=tradeoff_document(results.tradeoff) if results.sweeps.families else None,
        sections=_sections({path.stem: path for path in figures}),
        jobs=_jobs(records),
        settings=yaml.safe_dump(dict(settings), sort_keys=False, allow_unicode=True),
    )
    write_text(out, text)
    return out


def _page(**content: Any) -> str:
    style, template = (path.read_text(encoding="utf-8") for path in (STYLE, TEMPLATE))
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode("ascii")
    # A browser may apply this one style and show pictures embedded in the page, but neither run a
    # script nor fetch anything.
    policy = (
        f"default-src 'none'; img-src data:; style-src 'sha256-{digest}';"
        " base-uri 'none'; form-action 'none'"
    )
    return rendered(template, **content, style=style, policy=policy, html_table=html_table)


def _sections(files: Mapping[str, Path]) -> dict[str, list[tuple[Drawing, str]]]:
    """Return figures and sources of their pictures by category, in the order of their table."""
    sections: dict[str, list[tuple[Drawing, str]]] = {category: [] for category in CATEGORIES}
    for name, figure in DRAWINGS.items():
        if name in files:
            try:
                content = base64.b64encode(files[name].read_bytes()).decode("ascii")
            except OSError as error:
                fault = f"{files[name]}: cannot be read ({error}); draw it again"
                raise FileError(fault) from error
            sections[figure.category].append((figure, f"data:image/png;base64,{content}"))
    return sections


def _facts(
    settings: Record, data: Record, results: Results, records: Sequence[Record]
) -> dict[str, str]:
    """Return the lines at the head of the page, by their labels."""
    runs, attacks = results.runs, results.attacks
    made = [record["provenance"] for record in records]
    seconds = sum(record["wall_seconds"] for record in records)
    return {
        "Data": _data(settings, data),
        "Model": _model(settings),
        "Seeds": _listed(map(str, settings["seeds"])),
        "Attacker has": _listed(map(readable, attacks["knowledge"])),
        "Attacks": _listed(map(readable, attacks["attack"])),
        "Trainings": _counted(runs),
        "Attacks carried out": _counted(attacks),
        "Commit": _listed(map(_commit, made)),
        "Hardware": _listed(map(_machine, made)),
        "Time of trainings and attacks": _duration(seconds),
    }


def _model(settings: Record) -> str:
    found = f"{settings['model']['name']}, cut {settings['model']['cut']}"
    if any(defence["model"] for defence in settings["defences"].values()):
        found += " (other options for some defences, see the settings)"
    return found


def _failures(results: Results) -> list[str]:
    """Return a sentence for each failed result; attacks that failed with their run have none."""
    runs, attacks = (each[each["status"] == "failed"] for each in (results.runs, results.attacks))
    lost = set(zip(runs["defence"], runs["seed"], strict=True))
    lines = [f"{run['defence']}, seed {run['seed']}: {run['reason']}" for run in rows_of(runs)]
    for row in rows_of(attacks):
        if (row["defence"], row["seed"]) not in lost:
            where = f"{row['attack']}, {row['knowledge']}, on {row['defence']}, seed {row['seed']}"
            lines.append(f"{where}: {row['reason']}")
    return lines


def _jobs(records: Sequence[Record]) -> Table:
    """Lay out the origin of each result, from its ``metrics.json``."""
    columns: list[Column] = [
        ("Defence", lambda row: readable(row["defence"])),
        ("Seed", lambda row: str(row["seed"])),
        ("Job", _job),
        ("Status", lambda row: "ok" if row["status"] == "ok" else f"failed: {row['reason']}"),
        ("Seconds", lambda row: f"{row['wall_seconds']:.1f}"),
        ("Peak memory [MiB]", number("peak_memory_mb", ",.0f")),
        ("Device", lambda row: row["provenance"]["device"]),
        ("Commit", lambda row: _commit(row["provenance"], "+")),
        ("Fingerprint", lambda row: row["provenance"]["fingerprint"][:_SHORT]),
        ("Versions", lambda row: _listed(map(" ".join, row["provenance"]["versions"].items()))),
    ]
    return laid_out("Results", pd.DataFrame(records), columns)


def _data(settings: Record, data: Record) -> str:
    counts, (channels, height, width) = data["counts"], data["image_shape"]
    colour = "grey" if channels == 1 else f"{channels} channels"
    images = ", ".join(f"{counts[part]:,} {part}" for part in counts)
    twice = data["duplicates_train_test"]
    return (
        f"{settings['data']['source']}: {len(data['classes'])} classes, {width}×{height} pixels,"
        f" {colour}; images: {images}"
        + (f" ({twice:,} test images are also in training or validation)" if twice else "")
    )


def _counted(results: pd.DataFrame) -> str:
    failed = int((results["status"] == "failed").sum())
    return f"{len(results)}, {failed or 'none'} of them failed"


def _commit(source: Record, dirty: str = " with uncommitted changes") -> str:
    return f"{source['commit'][:_SHORT]}{dirty if source['dirty'] else ''}"


def _machine(source: Record) -> str:
    return f"{source['device']} ({source['machine']}), threads per job: {source['threads']}"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(names))


def _duration(seconds: float) -> str:
    return f"{seconds / 60:.1f} minutes" if seconds < 3600 else f"{seconds / 3600:.1f} hours"


def _job(row: Row) -> str:
    return "training" if row["kind"] == "run" else readable(f"{row['attack']}, {row['knowledge']}")
