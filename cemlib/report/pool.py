"""Join the results of a study with published ones of other seeds, computed on other machines."""

from dataclasses import replace
from pathlib import Path

import pandas as pd

from cemlib.records.files import FileError
from cemlib.report.build import Results, figures, write_tables
from cemlib.report.figures import DRAWINGS, UTILITY
from cemlib.report.style import save
from cemlib.report.tables import read_runs

_KEY = ["experiment", "defence", "seed"]


def pooled(results: Results, root: Path, table: Path) -> Results:
    """Return results together with those of a published ``runs.csv``.

    Intervals over single images are left out, since the published results have no images.

    Args:
        results: results of the seeds that the table lacks.
        root: folder of the experiment.
        table: the published table.

    Raises:
        FileError: if there is no such table, a run is in both, or the table is of another
            experiment, has a defence that is not in the study, or has other attacks.
    """
    if not table.is_file():
        raise FileError(f"{table}: no such file; publish the first seeds without --add")
    runs, attacks = read_runs(table)
    if unknown := set(runs["defence"]) - set(results.defences):
        raise FileError(f"{table}: has {', '.join(sorted(unknown))}, which is not in the study")
    if other := set(runs["experiment"]) - set(results.runs["experiment"]):
        raise FileError(f"{table}: belongs to another experiment, {', '.join(sorted(other))}")
    if other := set(attacks["attack"]) ^ set(results.attacks["attack"]):
        names = ", ".join(sorted(other))
        raise FileError(f"{table}: has other attacks ({names}); publish all seeds again")
    for row in runs.merge(results.runs[_KEY]).to_dict("records"):
        raise FileError(
            f"{table}: has {row['defence']}, seed {row['seed']} already; choose the seeds that it"
            " lacks, as in --set 'seeds=[3, 4]'"
        )
    for frame in (runs, attacks):
        frame["folder"] = [str(root / folder) for folder in frame["folder"]]
    parts = ([runs, results.runs], [attacks, results.attacks])
    every, attacked = (pd.concat(pair).sort_values("seed", kind="stable") for pair in parts)
    return replace(results, runs=every, attacks=attacked, has_images=False)


def write_pooled(results: Results, root: Path, out: Path) -> list[Path]:
    """Write the tables of pooled results, and the figures that follow from them; return the files.

    Pictures and learning curves need more than the tables and are not drawn.
    """
    every = figures(results).items()
    drawn = [(name, draw) for name, draw in every if DRAWINGS[name].category == UTILITY]
    pictures = [path for name, draw in drawn for path in save(draw(), out, name)]
    return [*write_tables(results, root, out), *pictures]
