"""The notebook of docs/library.md, executed block by block in one namespace."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

PAGE = Path(__file__).parents[1] / "docs/library.md"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the page's blocks leave, after the last one."""
    place, names = tmp_path_factory.mktemp("notebook"), {"__name__": "notebook"}
    threads = torch.get_num_threads()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        for number, block in enumerate(BLOCK.findall(PAGE.read_text(encoding="utf-8")), 1):
            exec(compile(block, f"{PAGE.name}, block {number}", "exec"), names)
    torch.set_num_threads(threads)
    return names | {"place": place}


def test_the_table_has_the_rows_that_the_page_says(notebook: dict[str, Any]) -> None:
    summary = notebook["summary"]
    rows = set(zip(summary["defence"], summary["attack"], summary["knowledge"], strict=True))
    assert rows == {
        (defence, attack, knowledge)
        for defence in ("noise", "topk")
        for attack in ("linear", "worst_case")
        for knowledge in ("train_data", "public_data")
    }
    assert summary["mse_mean"].between(0, 1, inclusive="neither").all()
    assert (summary["n_failed"] == 0).all()


def test_the_defended_network_is_the_one_of_the_page(notebook: dict[str, Any]) -> None:
    assert "layer1" in notebook["possible_cuts"](notebook["network"])
    defended = notebook["defended"]
    assert defended.deployed.model.feature_shape == (64, 4, 4)
    assert notebook["narrow"].feature_shape == (8, 4, 4)
    assert defended.deployed.channel.noise_std == 0.1
    assert defended.history[-1]["surrogate/steps"] > 0  # the surrogate acted


def test_the_pictures_are_there(notebook: dict[str, Any]) -> None:
    with Image.open(notebook["place"] / "reconstructions.png") as strip:
        assert strip.size == (10 * 68, 2 * 68)
