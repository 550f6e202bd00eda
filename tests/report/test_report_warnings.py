"""Results that say nothing about a defence are told wherever they are shown."""

from pathlib import Path

import pandas as pd
from page_study import DEFENCES, build, page_study
from synthetic_study import Study, change

from cemlib.report.bars import overview
from cemlib.report.build import Results, write_tables
from cemlib.report.claims import warnings
from cemlib.report.frontier import Sweeps
from cemlib.report.grid import reconstructions
from cemlib.report.tables import at_chance, summary_table

CHANCE = "noise: the classifier is at chance on 1 of 2 seeds, so its privacy scores mean nothing."
SEEN = "none: the deployed epoch was chosen on the test images, so its accuracy is too high."
BLIND = (
    "none: with train data, on at least one seed no attack was better than the mean image;"
    " a stronger attack might be."
)


def test_chance_and_the_mean_image_are_told_everywhere(tmp_path: Path) -> None:
    """Of a classifier that names one class of ten, and attacks that the mean image beats."""
    study = page_study(tmp_path / "synthetic")
    change(study.root / "runs/none/seed0/metrics.json", selected_on="best_test")
    change(study.root / "runs/noise/seed0/metrics.json", top1=0.105)
    for attack in ("decoder", "linear"):
        folder = study.root / f"runs/none/seed1/attacks/{attack}-train_data"
        change(folder / "metrics.json", mse=0.07)
    results = Results(*study.frames(), DEFENCES)
    assert warnings(summary_table(results.runs, results.attacks, DEFENCES)) == [CHANCE, SEEN, BLIND]
    written = {path.name: path for path in write_tables(results, study.root, tmp_path)}
    page = build(study, tmp_path / "index.html")
    for path in (written["summary.md"], written["claims.md"], page):
        for sentence in (CHANCE, SEEN, BLIND):
            assert sentence in path.read_text(encoding="utf-8"), path
    grid = reconstructions(*study.frames(), DEFENCES, None, Sweeps(), "train_data")
    labels = [panel.get_ylabel() for panel in grid.axes]
    assert [label.split("\n")[0] for label in labels if "(chance)" in label] == ["noise"]
    panel, *_ = overview(*study.frames(), DEFENCES).axes
    rows = [label.get_text() for label in panel.get_yticklabels()]
    assert [row for row in rows if "(chance)" in row] == ["noise (chance)"]


def test_only_the_mean_image_itself_is_told(study: Study) -> None:
    """An attack may have a name that begins like it."""
    for attack, mse in (("mean_image", 0.05), ("mean_image_corrected", 0.01)):
        study.add_attack("none", 0, attack, mse=mse)
    assert warnings(summary_table(*study.frames(), ["none"])) == []


def test_chance_depends_on_the_most_frequent_class() -> None:
    """At 10 %: up to 11 %. At 95 %: up to 95.5 %, where the error is 0.9 times that of 5 %."""
    at = ((0.10, 0.109, True), (0.10, 0.111, False), (0.95, 0.954, True), (0.95, 0.956, False))
    frame = pd.DataFrame(at, columns=["chance_top1", "top1", "expected"])
    assert at_chance(frame).tolist() == frame["expected"].tolist()
