"""What single images show: spread of their error, identification, the extremes."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from reading_figures import labelled, texts
from synthetic_study import DEFENCES, KNOWLEDGES, Study, image_scores

from cemlib.files import FileError
from cemlib.layout import AttackFolder
from cemlib.report.bars import identification
from cemlib.report.collect import collect
from cemlib.report.extremes import extremes
from cemlib.report.image_scores import read_scores
from cemlib.report.per_image import per_image_mse


def attacks_of(study: Study) -> pd.DataFrame:
    return collect(study.runs, study.attacks)[1]


def strongest_folder(study: Study, defence: str, seed: int = 0) -> AttackFolder:
    """The decoder is the strongest attack of the synthetic study."""
    return AttackFolder(study.root / f"runs/{defence}/seed{seed}/attacks/decoder-train_data")


def test_boxes_are_the_quartiles_of_the_strongest_attack(full_study: Study) -> None:
    figure = per_image_mse(attacks_of(full_study), DEFENCES)
    panel = figure.axes[0]
    boxes = [(box.get_x(), box.get_x() + box.get_width()) for box in panel.patches]
    for (first, third), name in zip(boxes, DEFENCES, strict=False):
        mse = pd.read_parquet(strongest_folder(full_study, name).per_image)["mse"]
        assert (first, third) == pytest.approx((mse.quantile(0.25), mse.quantile(0.75)))
    assert len(boxes) == len(DEFENCES) + 1
    dashed = panel.lines[-1].get_xdata()
    assert np.asarray(dashed).tolist() == pytest.approx([0.0466, 0.0466])  # the mean image's median
    assert texts(panel) == ["decoder"] * len(DEFENCES)
    assert panel.get_yticklabels()[-1].get_text() == "(mean image)"
    assert panel.get_xscale() == "log"


def test_lines_span_the_middle_nine_tenths_and_dots_all_images(study: Study) -> None:
    study.add_run("none", 0)
    folder = study.add_attack("none", 0, "decoder", "train_data", mse=0.5)
    scores = image_scores(0.5, images=101).assign(mse=np.arange(101) / 100 + 0.01)
    scores.to_parquet(folder.per_image)
    (panel,) = per_image_mse(attacks_of(study), DEFENCES).axes
    spans = [np.asarray(line.get_xdata()).tolist() for line in panel.lines]
    assert spans == [pytest.approx(ends) for ends in ([0.06, 0.96], [0.51, 0.51], [0.01, 1.01])]


def test_the_spread_of_a_defence_without_result_says_so(brief_study: Study) -> None:
    brief_study.add_run("gated", 0, status="failed", reason="diverged")
    (panel,) = per_image_mse(attacks_of(brief_study), DEFENCES).axes
    assert texts(panel) == ["decoder", "decoder", "failed"]


@pytest.mark.parametrize("content", [None, b"PAR1", b""])
def test_unreadable_scores_of_images_are_named(brief_study: Study, content: bytes | None) -> None:
    path = strongest_folder(brief_study, "clustering").per_image
    path.unlink() if content is None else path.write_bytes(content)
    with pytest.raises(FileError, match=r"clustering.*per_image\.parquet: cannot be read"):
        per_image_mse(attacks_of(brief_study), DEFENCES)


def test_scores_without_mse_are_named(tmp_path: Path) -> None:
    pd.DataFrame({"ssim": [0.5]}).to_parquet(tmp_path / "per_image.parquet")
    with pytest.raises(FileError, match=r"per_image\.parquet: cannot be read .*mse"):
        read_scores(str(tmp_path))


def test_identification_bars_are_percentages_beside_the_judge(full_study: Study) -> None:
    attacks = attacks_of(full_study)
    figure = identification(attacks, DEFENCES)
    for panel, knowledge in zip(figure.axes, KNOWLEDGES, strict=True):
        decoder = attacks[(attacks["attack"] == "decoder") & (attacks["knowledge"] == knowledge)]
        means = decoder.groupby("defence")["recon_top1"].mean()
        assert [bar.get_width() for bar in panel.patches] == pytest.approx(
            [100 * means[name] for name in DEFENCES]
        )
        assert "originals 98.5" in texts(panel)
        assert texts(panel).count("decoder") == len(DEFENCES)
    assert labelled(figure)


def test_identification_that_was_not_measured_is_no_failure(study: Study) -> None:
    for defence in ("none", "noise"):
        study.add_run(defence, 0)
    study.add_attack("none", 0, "decoder", "train_data", recon_top1=0.5, judge_top1=0.9)
    study.add_attack("noise", 0, "decoder", "train_data")
    study.add_run("gated", 0, status="failed", reason="diverged")
    (panel,) = identification(attacks_of(study), DEFENCES).axes
    written = ["50.0", "not measured", "failed (1 of 1)", "decoder", "originals 90.0"]
    assert texts(panel) == written


def test_extremes_show_each_defences_own_strip_in_two_halves(full_study: Study) -> None:
    figure = extremes(attacks_of(full_study), DEFENCES, "train_data")
    for panel, name in zip(figure.axes, DEFENCES, strict=False):
        shown = np.asarray(panel.images[0].get_array())
        strip = np.asarray(Image.open(strongest_folder(full_study, name).extremes).convert("RGB"))
        side = strip.shape[0] // 2
        for row, place in ((strip[:side], 0), (strip[side:], shown.shape[0] - side)):
            drawn = shown[place : place + side]
            np.testing.assert_array_equal(drawn[:, :side], row[:, :side])  # the lowest MSE
            np.testing.assert_array_equal(drawn[:, -side:], row[:, -side:])  # the highest
        middle = shown[:side, shown.shape[1] // 2]
        assert (middle == 0).all()  # the line between the halves
        assert panel.get_title(loc="left").startswith(f"{name}: decoder, mean MSE 0.00")
    assert "lowest MSE (left, least protected)" in figure.get_suptitle()
    assert "train data" in figure.get_suptitle()


def test_extremes_of_failed_results_say_so(brief_study: Study) -> None:
    brief_study.add_run("gated", 0, status="failed", reason="diverged")
    figure = extremes(attacks_of(brief_study), DEFENCES, "train_data")
    assert [texts(panel) for panel in figure.axes] == [[], [], ["no result"]]
    assert figure.axes[2].get_title(loc="left") == "gated: failed"


def test_a_damaged_strip_of_extremes_is_named(brief_study: Study) -> None:
    strongest_folder(brief_study, "none").extremes.write_bytes(b"PNG")
    with pytest.raises(FileError, match=r"extremes\.png: cannot be read as a picture"):
        extremes(attacks_of(brief_study), DEFENCES, "train_data")
