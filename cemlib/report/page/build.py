"""Writing the results page."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from cemlib.files import write_text
from cemlib.marks import NOTE
from cemlib.report.collect import collect
from cemlib.report.comparisons import comparisons_table
from cemlib.report.page.comparisons import comparisons
from cemlib.report.page.contents import Page
from cemlib.report.page.curves import curves
from cemlib.report.page.drawings import drawings
from cemlib.report.page.gallery import gallery
from cemlib.report.page.provenance import jobs
from cemlib.report.page.render import render
from cemlib.report.page.study import facts
from cemlib.report.page.summary import failures, summary
from cemlib.report.tables import present, summary_table
from cemlib.report.verdicts import unconverged
from cemlib.seal import read_sealed

_DATA = ("classes", "counts", "image_shape")
_RESULT = ("kind", "defence", "seed", "status", "reason", "provenance", "wall_seconds")


def write_page(
    run_metrics: Sequence[Path],
    attack_metrics: Sequence[Path],
    out: Path,
    *,
    data: Path,
    figures: Sequence[Path],
    settings: Mapping[str, Any],
) -> Path:
    """Write a study's page.

    Args:
        run_metrics: ``metrics.json`` of every run.
        attack_metrics: ``metrics.json`` of every attack.
        out: the file to write.
        data: description of the prepared data.
        figures: PNGs of the report, in the order of the page.
        settings: the configuration with its defaults; names the order of the defences.

    Returns:
        The file.

    Raises:
        FileError: if a file is missing, damaged or not as its job wrote it.
        ValueError: if a result's defence is not in the configuration.
    """
    runs, attacks = collect(run_metrics, attack_metrics)
    records = {path: read_sealed(path, _RESULT) for path in (*run_metrics, *attack_metrics)}
    write_text(out, render(_page(runs, attacks, records, data, figures, settings)))
    return out


def _page(
    runs: pd.DataFrame,
    attacks: pd.DataFrame,
    records: Mapping[Path, Mapping[str, Any]],
    data: Path,
    figures: Sequence[Path],
    settings: Mapping[str, Any],
) -> Page:
    defences, described = tuple(settings["defences"]), read_sealed(data, _DATA)
    choices = _choices(runs, attacks, defences, described)
    compared = comparisons_table(runs, attacks, defences, settings["reference"])
    return Page(
        experiment=settings["experiment"],
        facts=facts(settings, described, runs, attacks, records),
        failures=failures(runs, attacks),
        note=NOTE if unconverged(attacks, "mse").any() else "",
        summary=summary(summary_table(runs, attacks, defences)),
        comparisons=comparisons(compared),
        reference="" if compared.empty else str(compared["reference"].iloc[0]),
        drawings=drawings(figures),
        jobs=jobs(records),
        settings=_sections(settings),
        left_out=[seed for seed in choices["seeds"] if seed not in choices["pictured"]],
        data=choices,
    )


def _choices(
    runs: pd.DataFrame, attacks: pd.DataFrame, defences: Sequence[str], described: Mapping[str, Any]
) -> dict[str, Any]:
    """What the scripts choose from."""
    return {
        "defences": present(runs, defences),
        "seeds": sorted({int(seed) for seed in runs["seed"]}),
        "names": list(attacks["attack"].unique()),
        "knowledges": list(attacks["knowledge"].unique()),
        "runs": curves(runs),
        **gallery(attacks, described["classes"], described["image_shape"][-1]),
    }


def _sections(settings: Mapping[str, Any]) -> dict[str, str]:
    """The configuration as YAML: what stands by itself, then each section."""
    single = {key: value for key, value in settings.items() if not isinstance(value, dict)}
    rest = {key: {key: value} for key, value in settings.items() if key not in single}
    return {
        name: yaml.safe_dump(section, sort_keys=False, allow_unicode=True)
        for name, section in ({"study": single} | rest).items()
    }
