"""Learning curves are means over the seeds of what the histories say."""

from pathlib import Path

import numpy as np
import pytest
from reading_figures import lines, texts
from synthetic_study import DEFENCES, Study, training_history

from cemlib.files import FileError, read_jsonl, write_jsonl
from cemlib.report.collect import collect
from cemlib.report.curves import attack_curves, recognition_course, training_curves
from cemlib.report.style import looks


def test_attack_curves_are_means_over_the_seeds(full_study: Study) -> None:
    _, attacks = collect(full_study.runs, full_study.attacks)
    figure = attack_curves(attacks, DEFENCES)
    assert len(figure.axes) == 2  # the decoder learns, the closed forms do not
    chosen = (attacks["defence"] == "gated") & (attacks["attack"] == "decoder")
    folders = attacks.loc[chosen & (attacks["knowledge"] == "train_data"), "folder"]
    histories = [read_jsonl(Path(folder) / "history.jsonl") for folder in folders]
    train, held_out = lines(figure.axes[0], looks(DEFENCES)["gated"].colour)
    for drawn, key in ((train, "train_mse"), (held_out, "val_mse")):
        expected = np.mean([[line[key] for line in history] for history in histories], axis=0)
        np.testing.assert_allclose(drawn, expected)


def test_attack_curves_without_learning_say_so(study: Study) -> None:
    study.add_run("none", 0)
    write_jsonl(study.add_attack("none", 0, "linear", "train_data").history, [])
    _, attacks = collect(study.runs, study.attacks)
    (panel,) = attack_curves(attacks, DEFENCES).axes
    assert texts(panel) == ["no attack of this study learns in epochs"]


def test_attack_curves_without_training_error_show_what_was_held_out(study: Study) -> None:
    """As of an attack that optimises each image by itself: it has no images to train on."""
    rows = [{"epoch": e, "train_mse": None, "val_mse": 0.1 / e} for e in (1, 2, 3)]
    study.add_run("none", 0)
    write_jsonl(study.add_attack("none", 0, "optimisation", "train_data").history, rows)
    write_jsonl(study.add_attack("none", 0, "decoder", "train_data").history, rows[:2])
    _, attacks = collect(study.runs, study.attacks)
    panels = attack_curves(attacks, DEFENCES).axes
    for panel, values in zip(panels, ([0.1, 0.05, 0.1 / 3], [0.1, 0.05]), strict=True):
        train, held_out = lines(panel, looks(DEFENCES)["none"].colour)
        assert train.size == 0
        np.testing.assert_allclose(held_out, values)
        assert panel.get_xlabel() == "step"
        assert panel.xaxis.get_tick_params()["labelbottom"]  # they last differently long


def test_recognition_is_the_decoders_mean_over_the_seeds(full_study: Study) -> None:
    _, attacks = collect(full_study.runs, full_study.attacks)
    figure = recognition_course(attacks, DEFENCES)
    assert [panel.get_title() for panel in figure.axes] == [
        "decoder, attacker has train data",
        "decoder, attacker has public data",
    ]
    chosen = (attacks["defence"] == "slot") & (attacks["attack"] == "decoder")
    folders = attacks.loc[chosen & (attacks["knowledge"] == "train_data"), "folder"]
    histories = [read_jsonl(Path(folder) / "history.jsonl") for folder in folders]
    expected = np.mean([[line["val_recon_top1"] for line in one] for one in histories], axis=0)
    (drawn,) = lines(figure.axes[0], looks(DEFENCES)["slot"].colour)
    np.testing.assert_allclose(drawn, 100 * expected)


def test_recognition_is_of_the_first_attack_that_recorded_it_if_any(study: Study) -> None:
    study.add_run("none", 0)
    old = [{"epoch": 1, "train_mse": 0.2, "val_mse": 0.2}]
    write_jsonl(study.add_attack("none", 0, "perceptual", "train_data").history, old)
    (panel,) = recognition_course(collect(study.runs, study.attacks)[1], DEFENCES).axes
    assert texts(panel) == ["no attack of this study recorded what the judge recognises"]
    new = [old[0] | {"val_recon_top1": 0.5}]
    write_jsonl(study.add_attack("none", 0, "gan", "train_data").history, new)
    (panel,) = recognition_course(collect(study.runs, study.attacks)[1], DEFENCES).axes
    assert panel.get_title() == "gan, attacker has train data"
    assert lines(panel, looks(DEFENCES)["none"].colour)[0].tolist() == [50]


def test_training_curves_leave_out_the_epochs_without_surrogate(full_study: Study) -> None:
    runs, _ = collect(full_study.runs, full_study.attacks)
    loss, validation, strength, surrogate = training_curves(runs, DEFENCES).axes
    style = looks(DEFENCES)
    assert len(lines(loss, style["none"].colour)) == 2
    assert lines(validation, style["none"].colour)[0][-1] == pytest.approx(99.7, abs=0.1)
    for panel in (strength, surrogate):
        assert lines(panel, style["none"].colour)[0].size == 0
        assert lines(panel, style["gated"].colour)[0].size == 28  # active from epoch 3 of 30
    np.testing.assert_allclose(lines(strength, style["gated"].colour)[0][0], 0.32)


def test_training_curves_of_undefended_or_failed_runs_are_drawn(study: Study) -> None:
    write_jsonl(
        study.add_run("none", 0).history, training_history("none", np.random.default_rng(0))
    )
    study.add_run("noise", 0, status="failed", reason="diverged")
    study.add_attack("none", 0, "linear", "train_data")
    runs, _ = collect(study.runs, study.attacks)
    panels = training_curves(runs, DEFENCES).axes
    assert texts(panels[2]) == texts(panels[3]) == ["no surrogate in this study"]


def test_a_history_without_epochs_is_named(study: Study) -> None:
    write_jsonl(study.add_run("none", 0).history, [{"train_loss": 1.0}])
    study.add_attack("none", 0, "linear", "train_data")
    runs, _ = collect(study.runs, study.attacks)
    with pytest.raises(FileError, match=r"seed0.history\.jsonl: a line has no 'epoch'"):
        training_curves(runs, DEFENCES)
