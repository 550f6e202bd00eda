"""The picture grid shows the strips of the strongest attacks, and where the weakest one errs."""

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image
from reading_figures import texts
from synthetic_study import DEFENCES, Study, fill, strip

from cemlib.records.files import FileError
from cemlib.report.frontier import Sweeps
from cemlib.report.grid import MOST, reconstructions, shown
from cemlib.report.style import significant
from cemlib.report.worst_case import worst_case


def grid(study: Study, knowledge: str = "train_data") -> Figure:
    return reconstructions(*study.frames(), DEFENCES, None, Sweeps(), knowledge)


def rows(figure: Figure) -> list[np.ndarray]:
    return [np.asarray(panel.images[0].get_array()) for panel in figure.axes]


def without_gaps(row: np.ndarray) -> np.ndarray:
    """Twelve pictures of 32 pixels, between which 2 are white."""
    return np.hstack([row[:, start : start + 32] for start in range(0, 12 * 34, 34)])


def test_the_grid_shows_the_strongest_attack_with_accuracy_and_error(full_study: Study) -> None:
    runs, attacks = full_study.frames()
    figure = grid(full_study, "public_data")
    original, *below, errors = rows(figure)
    labels = [panel.get_ylabel() for panel in figure.axes]
    for row, label, name in zip(below, labels[1:-1], DEFENCES, strict=True):
        folder = full_study.root / f"runs/{name}/seed0/attacks/decoder-public_data"
        pixels = np.asarray(Image.open(folder / "reconstructions.png").convert("RGB"))
        np.testing.assert_array_equal(without_gaps(original), pixels[:32])
        np.testing.assert_array_equal(without_gaps(row), pixels[32:])
        mse = attacks.loc[attacks["folder"] == str(folder), "mse"].item()
        top1 = runs.loc[(runs["defence"] == name) & (runs["seed"] == 0), "top1"].item()
        assert label == f"{name}\n{100 * top1:.1f} % accurate\ndecoder: MSE {significant(mse)}"
        if name == "gated":  # the highest MSE
            off = np.abs(pixels[:32] / 255 - pixels[32:] / 255).mean(axis=2)
    assert labels[-1] == f"error on gated,\nblack 0, yellow {off.max():.2f}"
    expected = mpl.colormaps["inferno"](off / off.max(), bytes=True)[..., :3]
    np.testing.assert_array_equal(without_gaps(errors), expected)


def test_of_many_defences_first_reference_and_highest_errors_are_shown(study: Study) -> None:
    names = [f"d{i}" for i in range(9)]
    for i, name in enumerate(names):
        study.add_attack(name, 0, mse=0.01 + 0.001 * ((i * 4) % 9))
    strongest = worst_case(study.frames()[1])
    kept = ["d0", "d2", "d4", "d6", "d7", "d8"]  # the highest four are 2, 4, 6 and 8
    assert shown(strongest, names, ["d0", "d7"]) == kept
    assert shown(strongest, names[:MOST], ["d0", None]) == names[:MOST]


def test_of_each_sweep_the_defence_nearest_to_the_accuracy_is_shown(study: Study) -> None:
    """The accuracies are 98, 92 and 86 % with noise, and 96, 91 and 89 % with `gated`."""
    accurate = {"n1": 98, "n2": 92, "n3": 86, "g1": 96, "g2": 91, "g3": 89}
    strip(0.01).save(study.add_attack("none", 0, mse=0.01).reconstructions)
    for name, top1 in accurate.items():
        study.add_run(name, 0, top1=top1 / 100)
        mse = 0.001 if name == "g2" else 0.1 - top1 / 1000  # g1 beats it in both
        strip(mse).save(study.add_attack(name, 0, mse=mse).reconstructions)
    families = {
        key: {name: {"noise_std": name[1]} for name in accurate if name[0] == key} for key in "ng"
    }
    for accuracy, names in (
        (90.0, ["none", "n, σ 2", "g, σ 3"]),
        (96.0, ["none", "n, σ 1", "g, σ 1"]),
    ):
        sweeps = Sweeps(families, match_accuracy=[97.0, accuracy])
        figure = reconstructions(*study.frames(), ["none", *accurate], None, sweeps, "train_data")
        labels = [panel.get_ylabel().split("\n")[0] for panel in figure.axes]
        assert labels[1:-1] == names


def test_the_grid_takes_the_lowest_seed_that_finished(study: Study) -> None:
    study.add_attack("none", 0, status="failed")
    strip(0.3).save(study.add_attack("none", 1, mse=0.3).reconstructions)
    study.add_attack("gated", 0, status="failed")
    figure = grid(study)
    assert figure.axes[1].get_ylabel() == "none\n90.0 % accurate\ndecoder: MSE 0.300"
    assert figure.axes[2].get_ylabel() == "gated\nfailed"
    assert (rows(figure)[2] == 255).all()


def test_a_grid_without_a_result_says_so(study: Study) -> None:
    study.add_attack("none", 0, status="failed")
    (panel,) = grid(study).axes
    assert texts(panel) == ["no defence has a finished result"]


@pytest.mark.parametrize(
    ("other", "message"),
    [(True, "shows other originals"), (False, "cannot be read as a picture")],
)
def test_strips_of_other_images_and_missing_ones_are_named(
    study: Study, other: bool, message: str
) -> None:
    fill(study, defences=("none", "clustering"), knowledges=("train_data",), seeds=2)
    path = study.root / "runs/clustering/seed0/attacks/decoder-train_data/reconstructions.png"
    pixels = 255 - np.asarray(Image.open(path))
    path.unlink()
    if other:
        Image.fromarray(pixels).save(path)
    with pytest.raises(FileError, match=rf"clustering.*reconstructions\.png: .*{message}"):
        grid(study)
