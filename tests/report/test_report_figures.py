"""Bars and trade-off are what the files say; every figure is labelled, written and repeatable."""

import math
from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from PIL import Image
from reading_figures import labelled, texts
from synthetic_study import DEFENCES, KNOWLEDGES, Study

from cemlib.report import CLUSTERS, SURROGATES, WHOLE
from cemlib.report import figures as table
from cemlib.report.bars import accuracy, privacy, psnr
from cemlib.report.build import figures, write_figures
from cemlib.report.collect import collect
from cemlib.report.results import Results
from cemlib.report.style import looks, new_figure, save, settings, significant
from cemlib.report.tradeoff import tradeoff

FIGURES = tuple(f.name for f in table.FIGURES if "{" not in f.name and f.part == WHOLE)
FIGURES = (*(name for name in FIGURES if name != "releases"), "accuracy_mse", "accuracy_ssim")


def test_a_file_is_known_by_its_name() -> None:
    """Every drawing of the table is found again, whatever its attacks are called."""
    choices = {"attack": ["mean_image", "a-b"], "knowledge": KNOWLEDGES, "defence": ["d-1"]}
    for part in (WHOLE, CLUSTERS, SURROGATES):
        found = list(table.drawings(part, choices, ("releases", "sweeps")))
        assert [table.drawing(each.name) for each in found] == found
        assert len({each.title for each in found}) == len(found)
    published = [each.name for each in table.drawings(WHOLE, choices) if each.is_published]
    assert "accuracy_mse" in published
    assert "extremes-public_data" not in published


def test_every_figure_has_labelled_axes(full_study: Study) -> None:
    drawings = figures(Results(*collect(full_study.runs, full_study.attacks), DEFENCES))
    for name in FIGURES:
        assert labelled(drawings[name]()), name


def test_accuracy_bars_are_the_mean_percentages(full_study: Study) -> None:
    runs, _ = collect(full_study.runs, full_study.attacks)
    whole, close = accuracy(runs, DEFENCES).axes
    expected = [100 * runs.loc[runs["defence"] == name, "top1"].mean() for name in DEFENCES]
    assert [bar.get_width() for bar in whole.patches] == pytest.approx(expected)
    assert whole.get_xlim()[0] == 0
    assert texts(whole) == [f"{mean:.1f}" for mean in expected]
    seeds = [line for line in close.lines if len(line.get_xdata()) == 3]
    assert len(seeds) == len(DEFENCES)


def test_privacy_bars_start_at_zero_and_show_the_ceiling(full_study: Study) -> None:
    _, attacks = collect(full_study.runs, full_study.attacks)
    figure = privacy(attacks, DEFENCES)
    assert [panel.get_title() for panel in figure.axes] == [
        "attacker has train data",
        "attacker has public data",
    ]
    for panel, knowledge in zip(figure.axes, KNOWLEDGES, strict=True):
        decoder = attacks[(attacks["attack"] == "decoder") & (attacks["knowledge"] == knowledge)]
        expected = [decoder.loc[decoder["defence"] == name, "mse"].mean() for name in DEFENCES]
        assert [bar.get_width() for bar in panel.patches] == pytest.approx(expected)
        assert "mean image 0.0466" in texts(panel)
        assert panel.get_xlim()[0] == 0
        assert panel.get_xlim()[1] > 0.0466


def test_bars_of_what_failed_say_so(study: Study) -> None:
    study.add_run("none", 0, top1=0.9)
    study.add_attack("none", 0, "decoder", "train_data", mse=0.01, psnr=None)
    study.add_run("noise", 0, top1=0.8)
    study.add_attack("noise", 0, "decoder", "train_data", mse=0.02, psnr=17.0)
    for defence, seed in (("noise", 1), ("gated", 0)):
        study.add_run(defence, seed, status="failed", reason="diverged")
    runs, attacks = collect(study.runs, study.attacks)
    part, whole = "failed (1 of 2)", "failed (1 of 1)"
    assert texts(accuracy(runs, DEFENCES).axes[0]) == ["90.0", f"80.0, {part}", whole]
    names = ["decoder", "decoder"]  # none where the strongest attack is not known
    assert texts(privacy(attacks, DEFENCES).axes[0]) == ["0.0100", f"0.0200, {part}", whole, *names]
    assert texts(psnr(attacks, DEFENCES).axes[0]) == ["∞", f"17.0, {part}", whole, *names]


@pytest.mark.parametrize("score", ["mse", "ssim"])
def test_tradeoff_labels_every_point_and_no_label_hides_another(
    full_study: Study, score: str
) -> None:
    figure = tradeoff(*collect(full_study.runs, full_study.attacks), DEFENCES, score)
    figure.draw_without_rendering()
    for panel in figure.axes:
        labels = [text for text in panel.texts if text.get_text()]
        assert [label.get_text() for label in labels] == list(DEFENCES)
        boxes = [label.get_window_extent() for label in labels]
        assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])
        assert all(panel.bbox.contains(*corner) for box in boxes for corner in box.corners())


def test_tradeoff_of_many_equal_points_still_labels_each(study: Study) -> None:
    names = [f"defence{i}" for i in range(40)]
    for name in names:
        study.add_run(name, 0)
        study.add_attack(name, 0, "decoder", "train_data")
    (panel,) = tradeoff(*collect(study.runs, study.attacks), names, "mse").axes
    assert [text for text in texts(panel) if text] == names


def test_all_figures_are_written_as_picture_and_drawing(brief_study: Study) -> None:
    out = brief_study.root / "figures"
    before = dict(mpl.rcParams)
    paths = write_figures(brief_study.runs, brief_study.attacks, out, defences=DEFENCES)
    grids = [f"reconstructions_{a}-train_data" for a in ("decoder", "linear", "mean_image")]
    grids += ["extremes-train_data", "comparisons-train_data"]
    names = sorted(f"{name}.{kind}" for name in (*FIGURES, *grids) for kind in ("png", "svg"))
    assert sorted(path.name for path in paths) == names
    assert sorted(path.name for path in out.iterdir()) == names
    for path in out.glob("*.png"):
        with Image.open(path) as image:
            assert image.width > 800, path.name
            assert np.asarray(image.convert("L")).std() > 5, path.name
    assert dict(mpl.rcParams) == before


def test_the_same_figure_is_the_same_file(tmp_path: Path, full_study: Study) -> None:
    runs, _ = collect(full_study.runs, full_study.attacks)
    for folder in ("a", "b"):
        save(accuracy(runs, DEFENCES), tmp_path / folder, "accuracy")
    for kind in ("png", "svg"):
        first, second = ((tmp_path / f / f"accuracy.{kind}").read_bytes() for f in ("a", "b"))
        assert first == second
        assert b"Matplotlib" not in first.replace(b"<!-- Created with matplotlib", b"")


def test_a_defence_keeps_its_look_and_differs_without_colour() -> None:
    style = looks([f"d{i}" for i in range(56)])
    assert len(set(style.values())) == 56
    in_grey = {(look.marker, look.hatch) for look in list(style.values())[:8]}
    assert len(in_grey) == 8


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0.0012345, "0.00123"), (0.0466, "0.0466"), (29.97, "30.0"), (0.0, "0"), (math.inf, "∞")],
)
def test_significant_digits(value: float, expected: str) -> None:
    assert significant(value) == expected


def test_settings_hold_only_inside() -> None:
    with settings():
        inside = mpl.rcParams["axes.grid"]
    assert inside
    assert not mpl.rcParams["axes.grid"]
    figure, panels = new_figure(2.0, columns=2, rows=2)
    assert isinstance(panels, Sequence)
    assert len(figure.axes) == 4
