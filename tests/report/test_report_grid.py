"""The picture grid shows the strips of the attacks, the lowest finished seed of each defence."""

from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image
from reading_figures import texts
from synthetic_study import DEFENCES, Study, strip

from cemlib.files import FileError
from cemlib.report.collect import collect
from cemlib.report.grid import reconstructions
from cemlib.report.style import significant


def grid_rows(figure: Figure) -> list[np.ndarray]:
    return [np.asarray(panel.images[0].get_array()) for panel in figure.axes]


def without_gaps(row: np.ndarray, count: int = 12, side: int = 32, gap: int = 2) -> np.ndarray:
    return np.hstack([row[:, i * (side + gap) : i * (side + gap) + side] for i in range(count)])


def test_the_grid_shows_originals_once_and_each_defence_with_its_mse(full_study: Study) -> None:
    _, attacks = collect(full_study.runs, full_study.attacks)
    figure = reconstructions(attacks, DEFENCES, "decoder", "public_data")
    rows = grid_rows(figure)
    assert len(rows) == 1 + len(DEFENCES)
    for row, name in zip(rows[1:], DEFENCES, strict=True):
        path = (
            full_study.root / f"runs/{name}/seed0/attacks/decoder-public_data/reconstructions.png"
        )
        pixels = np.asarray(Image.open(path).convert("RGB"))
        np.testing.assert_array_equal(without_gaps(rows[0]), pixels[:32])
        np.testing.assert_array_equal(without_gaps(row), pixels[32:])
    chosen = attacks[(attacks["attack"] == "decoder") & (attacks["knowledge"] == "public_data")]
    errors = chosen[chosen["seed"] == 0].set_index("defence")["mse"]
    assert [panel.get_ylabel() for panel in figure.axes] == [
        "original",
        *(f"{name}\nMSE {significant(errors[name])}" for name in DEFENCES),
    ]


def test_the_grid_takes_the_lowest_seed_that_finished(study: Study) -> None:
    study.add_run("none", 0)
    study.add_attack("none", 0, "decoder", "train_data", status="failed")
    study.add_run("none", 1)
    strip(0.3).save(study.add_attack("none", 1, "decoder", "train_data", mse=0.3).reconstructions)
    study.add_run("gated", 0)
    study.add_attack("gated", 0, "decoder", "train_data", status="failed")
    _, attacks = collect(study.runs, study.attacks)
    figure = reconstructions(attacks, DEFENCES, "decoder", "train_data")
    assert [panel.get_ylabel() for panel in figure.axes] == [
        "original",
        "none\nMSE 0.300",
        "gated\nfailed",
    ]
    assert (grid_rows(figure)[2] == 255).all()


def test_the_grid_of_an_attack_that_always_failed_says_so(study: Study) -> None:
    study.add_run("none", 0)
    study.add_attack("none", 0, "decoder", "train_data", status="failed")
    _, attacks = collect(study.runs, study.attacks)
    (panel,) = reconstructions(attacks, DEFENCES, "decoder", "train_data").axes
    assert texts(panel) == ["decoder failed on every run"]


def damage(path: Path, how: str) -> None:
    if how == "other images":
        Image.fromarray(255 - np.asarray(Image.open(path))).save(path)
    elif how == "odd size":
        Image.new("L", (65, 64)).save(path)
    else:
        path.write_bytes(path.read_bytes()[:100])


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("other images", "shows other originals"),
        ("odd size", "65x64 pixels are not two rows of square images"),
        ("cut off", "cannot be read as a picture"),
    ],
)
def test_damaged_strips_are_named(brief_study: Study, how: str, message: str) -> None:
    folder = brief_study.root / "runs/clustering/seed0/attacks/decoder-train_data"
    damage(folder / "reconstructions.png", how)
    _, attacks = collect(brief_study.runs, brief_study.attacks)
    with pytest.raises(FileError, match=rf"clustering.*reconstructions\.png: .*{message}"):
        reconstructions(attacks, DEFENCES, "decoder", "train_data")
