"""The head of the page: what was studied, by which code, where, and how much of it failed."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd

from cemlib.report.style import readable
from cemlib.report.tables import records

Record = Mapping[str, Any]


def facts(
    settings: Record,
    data: Record,
    runs: pd.DataFrame,
    attacks: pd.DataFrame,
    results: Mapping[Path, Record],
) -> dict[str, str]:
    """Return the head's lines: what each is about, and what is the case.

    Args:
        settings: the configuration with its defaults.
        data: description of the prepared data.
        runs: as `collect` returns them.
        attacks: likewise.
        results: content of every ``metrics.json``, by its path.
    """
    made = [record["provenance"] for record in results.values()]
    return {
        "Data": _data(settings, data),
        "Model": f"{settings['model']['name']}, cut {settings['model']['cut']}",
        "Noise σ": _noise(settings["defences"]),
        "Seeds": ", ".join(str(seed) for seed in settings["seeds"]),
        "Attacker has": _listed(readable(name) for name in attacks["knowledge"].unique()),
        "Attacks": _listed(readable(name) for name in attacks["attack"].unique()),
        "Trainings": _counted(runs),
        "Attacks carried out": _counted(attacks),
        "Commit": _listed(_commit(source) for source in made),
        "Hardware": _listed(_machine(source) for source in made),
        "Date": _date(results),
        "Time of all jobs": _duration(sum(r["wall_seconds"] for r in results.values())),
    }


def failures(runs: pd.DataFrame, attacks: pd.DataFrame) -> list[str]:
    """Return a sentence for each failed result; attacks that failed with their run have none."""
    failed_runs = list(records(runs[runs["status"] == "failed"]))
    lost = {(run["defence"], run["seed"]) for run in failed_runs}
    lines = [f"{run['defence']}, seed {run['seed']}: {run['reason']}" for run in failed_runs]
    for row in records(attacks[attacks["status"] == "failed"]):
        if (row["defence"], row["seed"]) not in lost:
            where = f"{row['attack']}, {row['knowledge']}, on {row['defence']}, seed {row['seed']}"
            lines.append(f"{where}: {row['reason']}")
    return lines


def _data(settings: Record, data: Record) -> str:
    counts, (channels, height, width) = data["counts"], data["image_shape"]
    colour = "grey" if channels == 1 else f"{channels} channels"
    images = ", ".join(f"{counts[part]:,} {part}" for part in counts)
    return (
        f"{settings['data']['source']}: {len(data['classes'])} classes, {width}×{height} pixels,"
        f" {colour}; images: {images}"
    )


def _noise(defences: Mapping[str, Record]) -> str:
    by_noise: dict[float, list[str]] = {}
    for name, defence in defences.items():
        by_noise.setdefault(defence["noise_std"], []).append(readable(name))
    if len(by_noise) == 1:
        return f"{next(iter(by_noise)):g}"
    return "; ".join(f"{noise:g} ({', '.join(names)})" for noise, names in by_noise.items())


def _counted(results: pd.DataFrame) -> str:
    failed = int((results["status"] == "failed").sum())
    return f"{len(results)}, {f'{failed} of them failed' if failed else 'none failed'}"


def _commit(source: Record) -> str:
    return f"{source['commit'][:12]}{' with uncommitted changes' if source['dirty'] else ''}"


def _machine(source: Record) -> str:
    threads = source["threads"]
    return f"{source['device']} ({source['machine']}), {threads} thread{'s' * (threads > 1)} a job"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(names))


def _date(results: Iterable[Path]) -> str:
    """Day of the newest result by its file's time: nothing in a result says when it was made."""
    newest = max(path.stat().st_mtime for path in results)
    return f"{datetime.fromtimestamp(newest, UTC):%Y-%m-%d} (UTC)"


def _duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    hours, rest = divmod(minutes, 60)
    return f"{hours} h {rest} min" if hours else f"{minutes} min" if minutes else f"{seconds:.0f} s"
