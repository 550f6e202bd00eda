"""Real image folders go through everything; slow: `CEMLIB_SETS=... pytest -m slow`.

The environment variable CEMLIB_SETS names a folder with the archives below, each of them class
folders `train/<class>/*` and `test/<class>/*`.
"""

import os
import tarfile
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from checkout import Checkout

SETS = Path(os.environ.get("CEMLIB_SETS") or "nowhere")


def study(classes: int, size: int, model: dict[str, Any]) -> dict[str, Any]:
    """Two epochs and two attacks; `classes` decides how many images are enough."""
    return {
        "experiment": "real",
        "seeds": [0],
        "data": {
            "source": "folder",
            "root": "images",
            "image_size": size,
            "train_limit": max(1000, 20 * classes),
            "test_limit": max(250, 3 * classes),
        },
        "model": model,
        "train": {"epochs": 2, "batch_size": 64, "milestones": [1]},
        "defences": {"noise": {}, "clustering": {"surrogate": "clustering", "channel": "dropout"}},
        "attacks": {
            "decoder": {"epochs": 2, "blocks": 1, "width": 16, "batch_size": 64},
            "linear": {},
            "mean_image": {},
        },
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("archive", "classes", "size", "model"),
    [
        ("cifar100", 100, 32, {"name": "vgg11"}),
        ("tinyimagenet50", 50, 64, {"name": "resnet20", "cut": 8}),
        ("facescrub12", 12, 64, {"name": "small"}),
        ("facescrub12", 12, 128, {"name": "small"}),
        ("mnist", 10, 32, {"name": "small"}),
    ],
)
def test_a_real_set_goes_through_to_the_table(
    tmp_path: Path, archive: str, classes: int, size: int, model: dict[str, Any]
) -> None:
    packed = SETS / f"{archive}.tar.xz"
    if not packed.is_file():
        pytest.skip(f"CEMLIB_SETS names no folder with {packed.name}")
    checkout = Checkout.create(tmp_path / "checkout")
    with tarfile.open(packed) as images:
        images.extractall(checkout.root / "images", filter="data")
    checkout.configure(study(classes, size, model))
    outcome = checkout.snakemake("results/real/tables/summary.csv")
    assert outcome.code == 0, outcome.output
    summary = pd.read_csv(checkout.root / "results/real/tables/summary.csv")
    assert (summary["n_failed"] == 0).all()
    assert summary["mse_mean"].between(0, 0.5).all()
    ceiling = summary[summary["attack"] == "mean_image"].set_index(["defence", "knowledge"])
    worst = summary[summary["attack"] == "worst_case"].set_index(["defence", "knowledge"])
    assert (worst["mse_mean"] <= ceiling["mse_mean"] + 1e-9).all()
    assert (worst.loc["noise"]["mse_mean"] < 0.8 * ceiling.loc["noise"]["mse_mean"]).all()
