"""A surrogate's course is the mean and range over the finished runs of what the histories say."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image
from reading_figures import band, labelled, lines, texts
from synthetic_study import DEFENCES, Study, training_history

from cemlib.cli import main
from cemlib.files import FileError, read_jsonl, write_jsonl
from cemlib.report.build import write_figures
from cemlib.report.collect import collect_runs
from cemlib.report.surrogates import surrogate_course

COURSE, REFERENCE, START = "#000000", "#777777", "#BBBBBB"
LABELS = (
    "penalty",
    "ratio of gradients,\nsurrogate / task",
    "leakage bound,\nvalidation [nats]",
    "share of active hinges",
)


def line(epoch: int, **changes: Any) -> dict[str, Any]:
    """An epoch's line of a run whose surrogate does not act yet."""
    silent = {"lambda_eff": 0.0, "surrogate": 0.0, "surrogate/gradient_ratio": 0.0}
    return {"epoch": epoch, "val_leakage_nats": 10.0 * epoch} | silent | changes


def acting(epoch: int, factor: float, **changes: Any) -> dict[str, Any]:
    """One of a run whose surrogate does; each number is another multiple of `factor`."""
    said = {
        "lambda_eff": 0.3,
        "surrogate": 1.0 * factor,
        "surrogate/gradient_ratio": 0.2 * factor,
        "surrogate/active": 0.1 * factor,
        "surrogate/effective_sample_size": 7.0 * factor,
        "surrogate/slot_entropy": 0.5 * factor,
        "surrogate/class_gate": 0.4 * factor,
    }
    return line(epoch) | said | changes


def add(study: Study, defence: str, seed: int, *history: dict[str, Any]) -> None:
    write_jsonl(study.add_run(defence, seed).history, history)


def small(study: Study) -> Study:
    """Two runs of three epochs, with a surrogate from the second on, and a failed one."""
    add(study, "mine", 0, line(1), acting(2, 1.0), acting(3, 2.0))
    add(study, "mine", 1, line(1), acting(2, 3.0), acting(3, 6.0))
    failed = study.add_run("mine", 2, status="failed", reason="diverged")
    write_jsonl(failed.history, [line(1), acting(2, 1e9)])
    return study


def course(study: Study, reference: str | None = None) -> Figure:
    return surrogate_course(collect_runs(study.runs), "mine", reference)


def explained(figure: Figure) -> list[str]:
    (legend,) = figure.legends
    return [text.get_text() for text in legend.get_texts()]


def test_lines_are_means_and_bands_the_range_of_the_finished_runs(study: Study) -> None:
    panels = course(small(study)).axes
    multiples = (1.0, 0.2, None, 0.1, 7.0, 0.5)
    for panel, multiple in zip(panels, multiples, strict=True):
        if multiple is not None:
            (drawn,) = lines(panel, COURSE)
            np.testing.assert_allclose(drawn, [2.0 * multiple, 4.0 * multiple])
            expected = [(2, 1.0 * multiple, 3.0 * multiple), (3, 2.0 * multiple, 6.0 * multiple)]
            np.testing.assert_allclose(band(panel), expected)


def test_the_leakage_bound_is_drawn_from_the_first_epoch(study: Study) -> None:
    small(study)
    rows = (line(epoch, val_leakage_nats=16.0 * epoch) for epoch in (1, 2, 3))
    add(study, "mine", 3, *rows)
    bound = course(study).axes[2]
    np.testing.assert_allclose(lines(bound, COURSE), [[12.0, 24.0, 36.0]])
    np.testing.assert_allclose(band(bound), [(1, 10, 16), (2, 20, 32), (3, 30, 48)])


def test_the_panels_are_named_and_the_first_two_notes_are_chosen(study: Study) -> None:
    figure = course(small(study))
    notes = ("effective sample size", "slot entropy [nats]")
    assert tuple(panel.get_ylabel() for panel in figure.axes) == (*LABELS, *notes)
    assert labelled(figure)
    assert explained(figure) == ["mean over runs (2)", "their range", "start of the surrogate"]


def test_the_start_is_the_first_epoch_with_a_strength(study: Study) -> None:
    def starts(panel: Axes) -> list[float]:
        marks = [mark for mark in panel.lines if mark.get_color() == START]
        return [float(place) for mark in marks for place in mark.get_xdata()]

    assert [starts(panel) for panel in course(small(study)).axes] == [[2.0, 2.0]] * 6


def test_all_panels_span_the_same_epochs(study: Study) -> None:
    assert {panel.get_xlim() for panel in course(small(study)).axes} == {(0.5, 3.5)}


def test_the_share_of_active_hinges_has_the_whole_axis(study: Study) -> None:
    low, high = course(small(study)).axes[3].get_ylim()
    assert (low, high) == pytest.approx((0, 1), abs=0.05)


def test_the_ratio_has_a_logarithmic_axis_and_its_zeros_are_averaged(study: Study) -> None:
    add(study, "mine", 0, acting(1, 1.0), acting(2, 0.0), acting(3, 0.0))
    add(study, "mine", 1, acting(1, 2.0), acting(2, 4.0), acting(3, 0.0))
    figure = course(study)
    ratio = figure.axes[1]
    assert ratio.get_yscale() == "log"
    np.testing.assert_allclose(lines(ratio, COURSE), [[0.3, 0.4, 0.0]])
    figure.draw_without_rendering()
    low, high = ratio.get_ylim()
    assert 0 < low < 0.3 < 0.8 < high


def test_a_ratio_that_is_always_zero_has_a_plain_axis(study: Study) -> None:
    add(study, "mine", 0, acting(1, 0.0), acting(2, 0.0))
    ratio = course(study).axes[1]
    assert ratio.get_yscale() == "linear"
    np.testing.assert_allclose(lines(ratio, COURSE), [[0.0, 0.0]])


def test_an_epoch_whose_ratio_is_unknown_is_left_out(study: Study) -> None:
    unknown = {"surrogate/gradient_ratio": None}
    add(study, "mine", 0, acting(1, 1.0), acting(2, 2.0, **unknown), acting(3, 3.0))
    add(study, "mine", 1, acting(1, 2.0), acting(2, 2.0, **unknown), acting(3, 3.0, **unknown))
    np.testing.assert_allclose(lines(course(study).axes[1], COURSE), [[0.3, 0.6]])


def test_a_single_epoch_is_a_visible_point(study: Study) -> None:
    add(study, "mine", 0, line(1), acting(2, 1.0))
    marks = [panel.lines[0].get_marker() for panel in course(study).axes]
    assert marks == ["o", "o", "", "o", "o", "o"]


def test_the_reference_is_drawn_beside_the_leakage_bound_alone(study: Study) -> None:
    small(study)
    add(study, "plain", 0, line(1, val_leakage_nats=50.0), line(2, val_leakage_nats=60.0))
    add(study, "plain", 1, line(1, val_leakage_nats=70.0), line(2, val_leakage_nats=None))
    figure = course(study, "plain")
    drawn = [lines(panel, REFERENCE) for panel in figure.axes]
    assert [len(found) for found in drawn] == [0, 0, 1, 0, 0, 0]
    np.testing.assert_allclose(drawn[2], [[60.0, 60.0]])
    assert explained(figure)[-1] == "plain (reference)"


@pytest.mark.parametrize("reference", [None, "mine", "unbounded", "broken"])
def test_without_a_finite_bound_of_another_there_is_no_reference(
    study: Study, reference: str | None
) -> None:
    small(study)
    add(study, "unbounded", 0, line(1, val_leakage_nats=None))
    study.add_run("broken", 0, status="failed", reason="diverged")
    figure = course(study, reference)
    assert [lines(panel, REFERENCE) for panel in figure.axes] == [[]] * 6
    assert len(explained(figure)) == 3


def test_panels_without_anything_say_so(study: Study) -> None:
    """Of a defence without noise, in a history written before the statistics were kept."""
    add(study, "mine", 0, {"epoch": 1, "lambda_eff": 0.3, "surrogate": 0.5})
    add(study, "plain", 0, line(1))
    penalty, *others = course(study, "plain").axes
    assert texts(penalty) == []
    assert [panel.lines[:] for panel in others] == [[]] * 5
    said = ["not recorded", "no finite bound", "not recorded", *["no further statistic"] * 2]
    assert [texts(panel) for panel in others] == [[text] for text in said]


def test_a_surrogate_that_never_started_says_so(study: Study) -> None:
    add(study, "mine", 0, line(1), line(2))
    figure = course(study)
    assert texts(figure.axes[0]) == ["never active"]
    np.testing.assert_allclose(lines(figure.axes[2], COURSE), [[10.0, 20.0]])
    assert explained(figure) == ["mean over runs (1)", "their range"]


def test_a_defence_that_failed_altogether_says_so(study: Study, tmp_path: Path) -> None:
    for seed in (0, 1):
        study.add_run("mine", seed, status="failed", reason="diverged")
    (panel,) = course(study).axes
    assert texts(panel) == ["all runs of mine failed"]
    picture, _ = write_figures(study.runs, (), tmp_path, defences=["mine"], part="surrogates")
    with Image.open(picture) as image:
        assert min(image.size) > 100


def test_a_history_without_epochs_is_named(study: Study) -> None:
    add(study, "mine", 0, {"lambda_eff": 1.0})
    with pytest.raises(FileError, match=r"seed0.history\.jsonl: a line has no 'epoch'"):
        course(study)


def test_a_whole_study_repeats_its_histories(full_study: Study) -> None:
    panels = surrogate_course(collect_runs(full_study.runs), "slot", "noise").axes
    files = [full_study.root / f"runs/slot/seed{seed}/history.jsonl" for seed in range(3)]
    histories = [read_jsonl(file) for file in files]
    keys = ("surrogate", "surrogate/gradient_ratio", "val_leakage_nats", "surrogate/active")
    for panel, key in zip(panels, (*keys, "surrogate/slot_entropy"), strict=False):
        said = [[row[key] for row in rows if row.get("surrogate/steps")] for rows in histories]
        drawn = lines(panel, COURSE)[0][-28:]  # from epoch 3 of 30
        np.testing.assert_allclose(drawn, np.mean(said, axis=0))


def test_every_defence_asked_for_has_a_picture_and_a_drawing(
    full_study: Study, tmp_path: Path
) -> None:
    names = DEFENCES[2:]
    paths = write_figures(
        full_study.runs, (), tmp_path, defences=names, reference="noise", part="surrogates"
    )
    expected = [f"surrogate_{name}.{kind}" for name in names for kind in ("png", "svg")]
    assert [path.name for path in paths] == expected
    for path in tmp_path.glob("*.png"):
        with Image.open(path) as image:
            assert image.width > 800
            assert np.asarray(image.convert("L")).std() > 5


def test_the_command_draws_the_defences_with_a_surrogate(
    study: Study, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for defence in ("noise", "gated"):
        history = training_history(defence, np.random.default_rng(0))
        write_jsonl(study.add_run(defence, 0).history, history)
    raw = {
        "experiment": study.root.name,
        "results": str(study.root.parent),
        "seeds": [0],
        "reference": "noise",
        "data": {"source": "digits"},
        "defences": {"noise": {}, "gated": {"surrogate": "gated"}},
        "attacks": {"linear": {}},
    }
    config = tmp_path / "study.yaml"
    config.write_text(yaml.safe_dump(raw))
    assert main(["report", "--config", str(config), "--only", "surrogates"]) == 0
    printed = [Path(text) for text in capsys.readouterr().out.splitlines()]
    folder = study.root / "figures"
    assert printed == [folder / "surrogate_gated.png", folder / "surrogate_gated.svg"]
    assert sorted(folder.iterdir()) == printed
