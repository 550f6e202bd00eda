"""Courses over the epochs are means and ranges over the finished runs of what the histories say."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from reading_figures import band, explained, lines, texts
from synthetic_study import DEFENCES, Study

from cemlib.records.files import read_jsonl, write_jsonl
from cemlib.report.attacks import attack_curves
from cemlib.report.learning_curves import surrogate_curves, training_curves
from cemlib.report.style import looks

LINE, VALIDATION, REFERENCE, START = "#000000", "#0072B2", "#777777", "#BBBBBB"


def mean(histories: list[list[dict[str, Any]]], key: str) -> np.ndarray:
    return np.mean([[line[key] for line in history] for history in histories], axis=0)


@pytest.mark.parametrize(("row", "key", "scale"), [(0, "val_mse", 1), (1, "val_recon_top1", 100)])
def test_the_attacks_course_is_the_mean_over_the_seeds(
    full_study: Study, row: int, key: str, scale: float
) -> None:
    _, attacks = full_study.frames()
    panels = attack_curves(attacks, DEFENCES).axes
    assert [panel.get_title() for panel in panels[:2]] == [
        "decoder, attacker has train data",
        "decoder, attacker has public data",
    ]
    assert len(panels) == 4
    for panel, knowledge in zip(panels[2 * row :], ("train_data", "public_data"), strict=False):
        chosen = (attacks["defence"] == "gated") & (attacks["attack"] == "decoder")
        folders = attacks.loc[chosen & (attacks["knowledge"] == knowledge), "folder"]
        histories = [read_jsonl(Path(folder) / "history.jsonl") for folder in folders]
        (drawn,) = lines(panel, looks(DEFENCES)["gated"].colour)
        np.testing.assert_allclose(drawn, scale * mean(histories, key))


def test_the_course_is_of_the_first_attack_that_learned_if_any(study: Study) -> None:
    write_jsonl(study.add_attack("none", 0, "linear", "train_data").history, [])
    (panel,) = attack_curves(study.frames()[1], DEFENCES).axes
    assert texts(panel) == ["no attack of this study learns in epochs"]
    rows = [{"epoch": e, "train_mse": None, "val_mse": 0.1 / e} for e in (1, 2, 3)]
    write_jsonl(study.add_attack("none", 0, "optimisation", "train_data").history, rows)
    error, recognised = attack_curves(study.frames()[1], DEFENCES).axes
    assert error.get_title() == "optimisation, attacker has train data"
    np.testing.assert_allclose(lines(error, LINE), [[0.1, 0.05, 0.1 / 3]])
    assert texts(recognised) == ["not recorded"]


def test_an_attacker_whose_attacks_all_failed_has_empty_panels(study: Study) -> None:
    rows = [{"epoch": e, "train_mse": None, "val_mse": 0.1 / e} for e in (1, 2, 3)]
    write_jsonl(study.add_attack("none", 0, "decoder", "train_data").history, rows)
    study.add_attack("none", 0, "decoder", "public_data", status="failed", mse=None)
    panels = attack_curves(study.frames()[1], DEFENCES).axes
    assert [texts(panel) for panel in panels] == [[], *3 * [["not recorded"]]]


def test_each_defence_has_a_panel_of_its_losses(full_study: Study) -> None:
    figure = training_curves(full_study.frames()[0], DEFENCES)
    for panel, name in zip(figure.axes, DEFENCES, strict=False):
        files = [full_study.root / f"runs/{name}/seed{seed}/history.jsonl" for seed in range(3)]
        histories = [read_jsonl(file) for file in files]
        np.testing.assert_allclose(lines(panel, LINE), [mean(histories, "train_ce")])
        np.testing.assert_allclose(lines(panel, VALIDATION), [mean(histories, "val_loss")])
        assert panel.get_title() == name
        starts = [line for line in panel.lines if line.get_color() == START]
        assert len(starts) == (name in ("clustering", "gated", "slot"))
    top1 = full_study.frames()[0].query("defence == 'none'")["val_top1"].mean()
    assert texts(figure.axes[0]) == [f"{100 * top1:.1f} %"]
    assert explained(figure)[-1] == "start of the surrogate"
    assert len({panel.get_ylim() for panel in figure.axes[:5]}) == 1


def line(epoch: int, **changes: Any) -> dict[str, Any]:
    """An epoch's line of a run whose surrogate does not act yet."""
    silent = {"lambda_eff": 0.0, "surrogate": 0.0, "surrogate/gradient_ratio": 0.0}
    losses = {"train_ce": 1.0, "val_loss": 1.0}
    return {"epoch": epoch, "val_leakage_nats": 10.0 * epoch} | losses | silent | changes


def acting(epoch: int, factor: float, **changes: Any) -> dict[str, Any]:
    """One of a run whose surrogate does; each number is another multiple of `factor`."""
    said = {
        "lambda_eff": 0.3,
        "surrogate": 1.0 * factor,
        "surrogate/gradient_ratio": 0.2 * factor,
        "surrogate/active": 0.1 * factor,
        "surrogate/effective_sample_size": 7.0 * factor,
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
    return surrogate_curves(study.frames()[0], ["mine"], reference)


def test_lines_are_means_and_bands_the_range_of_the_finished_runs(study: Study) -> None:
    figure = course(small(study))
    for panel, multiple in zip(figure.axes, (1.0, 0.2, None, 0.1, 7.0), strict=True):
        if multiple is not None:
            (drawn,) = lines(panel, LINE)
            np.testing.assert_allclose(drawn, [2.0 * multiple, 4.0 * multiple])
            expected = [(2, 1.0 * multiple, 3.0 * multiple), (3, 2.0 * multiple, 6.0 * multiple)]
            np.testing.assert_allclose(band(panel), expected)
    titles = [panel.get_title() for panel in figure.axes]
    assert titles[0] == "penalty"
    assert titles[-1] == "effective sample size"  # the first of its own that it has
    assert explained(figure) == ["mean", "range of seeds", "start of the surrogate"]


def test_the_leakage_bound_is_drawn_from_the_first_epoch(study: Study) -> None:
    add(small(study), "mine", 3, *(line(e, val_leakage_nats=16.0 * e) for e in (1, 2, 3)))
    bound = course(study).axes[2]
    np.testing.assert_allclose(lines(bound, LINE), [[12.0, 24.0, 36.0]])
    np.testing.assert_allclose(band(bound), [(1, 10, 16), (2, 20, 32), (3, 30, 48)])


def test_the_start_is_the_first_epoch_with_a_strength(study: Study) -> None:
    def starts(panel: Axes) -> list[float]:
        marks = [mark for mark in panel.lines if mark.get_color() == START]
        return [float(place) for mark in marks for place in mark.get_xdata()]

    panels = course(small(study)).axes
    assert [starts(panel) for panel in panels] == [[2.0, 2.0]] * 5
    assert panels[3].get_ylim() == pytest.approx((0, 1), abs=0.05)  # a share has the whole axis


def test_the_ratio_has_a_logarithmic_axis_unless_it_is_always_zero(study: Study) -> None:
    add(study, "mine", 0, acting(1, 1.0), acting(2, 0.0), acting(3, 0.0))
    assert course(study).axes[1].get_yscale() == "log"
    add(study, "mine", 1, acting(1, 2.0), acting(2, 4.0), acting(3, 0.0))
    np.testing.assert_allclose(lines(course(study).axes[1], LINE), [[0.3, 0.4, 0.0]])
    add(study, "none", 0, acting(1, 0.0), acting(2, 0.0))
    ratio = surrogate_curves(study.frames()[0], ["none"], None).axes[1]
    assert ratio.get_yscale() == "linear"


def test_the_reference_is_drawn_beside_the_leakage_bound_alone(study: Study) -> None:
    small(study)
    add(study, "plain", 0, line(1, val_leakage_nats=50.0), line(2, val_leakage_nats=60.0))
    add(study, "plain", 1, line(1, val_leakage_nats=70.0), line(2, val_leakage_nats=None))
    figure = course(study, "plain")
    drawn = [lines(panel, REFERENCE) for panel in figure.axes]
    assert [len(found) for found in drawn] == [0, 0, 1, 0, 0]
    np.testing.assert_allclose(drawn[2], [[60.0, 60.0]])
    assert explained(figure)[-1] == "plain"


@pytest.mark.parametrize("reference", [None, "unbounded", "broken"])
def test_without_a_finite_bound_of_another_there_is_no_reference(
    study: Study, reference: str | None
) -> None:
    small(study)
    add(study, "unbounded", 0, line(1, val_leakage_nats=None))
    study.add_run("broken", 0, status="failed", reason="diverged")
    figure = course(study, reference)
    assert [lines(panel, REFERENCE) for panel in figure.axes] == [[]] * 5
    assert len(explained(figure)) == 3


def test_panels_without_anything_say_so(study: Study) -> None:
    """Of a defence without noise whose surrogate recorded nothing, and of one that never began."""
    add(study, "mine", 0, {"epoch": 1, "lambda_eff": 0.3, "surrogate": 0.5})
    penalty, *others = course(study).axes
    assert texts(penalty) == []
    said = ["none recorded", "no finite bound", "none recorded", "none recorded"]
    assert [texts(panel) for panel in others] == [[text] for text in said]
    assert [mark for mark in penalty.lines if mark.get_marker() == "o"]  # one epoch is a point
    add(study, "late", 0, line(1), line(2))
    penalty, _, bound, *_ = surrogate_curves(study.frames()[0], ["late"], None).axes
    assert texts(penalty) == ["never active"]
    np.testing.assert_allclose(lines(bound, LINE), [[10.0, 20.0]])


def test_failed_runs_and_studies_without_surrogate_say_so(study: Study) -> None:
    study.add_run("mine", 0, status="failed", reason="diverged")
    runs = study.frames()[0]
    assert [texts(panel) for panel in course(study).axes] == [["all runs failed"]] * 5
    assert "all runs failed" in texts(training_curves(runs, ["mine"]).axes[0])
    (panel,) = surrogate_curves(runs, [], None).axes
    assert texts(panel) == ["no defence of this study has a surrogate"]
