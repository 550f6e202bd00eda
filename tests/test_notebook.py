"""examples/audit.ipynb: its code does what its outputs show."""

import base64
import json
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
import torch
from notebook_cells import execute
from PIL import Image

NOTEBOOK = Path(__file__).parents[1] / "examples/audit.ipynb"


@pytest.fixture(scope="module")
def executed() -> tuple[list[dict[str, Any]], dict[str, Any]]:
    state = torch.get_rng_state()
    found = execute(NOTEBOOK)
    torch.set_rng_state(state)
    return found


def shown(cell: dict[str, Any]) -> Any:
    """Of a frame the train_data attacker's MSE by attack, of a picture its size."""
    (output,) = cell["outputs"]
    if "image/png" in output["data"]:
        return Image.open(BytesIO(base64.b64decode(output["data"]["image/png"]))).size
    rows = [line.split() for line in "".join(output["data"]["text/plain"]).splitlines()]
    return {row[1]: float(row[3]) for row in rows if row[0] == "train_data"}


def test_the_outputs_kept_are_those_of_the_code(executed: Any) -> None:
    """Other processors round otherwise: errors may differ by a quarter."""
    kept = [c for c in json.loads(NOTEBOOK.read_text())["cells"] if c["cell_type"] == "code"]
    pairs = [
        (ours, theirs) for ours, theirs in zip(executed[0], kept, strict=True) if ours["outputs"]
    ]
    assert len(pairs) == 4
    for ours, theirs in pairs:
        assert shown(theirs) == pytest.approx(shown(ours), rel=0.25)
    assert NOTEBOOK.stat().st_size < 200_000


def test_the_defence_of_the_notebook_hides_something(executed: Any) -> None:
    found, protected = (executed[1][name] for name in ("found", "protected"))
    open_, hidden = (each.frame.set_index("attack")["mse"] for each in (found, protected))
    assert (hidden["worst_case"] > 1.5 * open_["worst_case"]).all()
    assert found.accuracy > 0.85
    assert protected.accuracy > 0.8


def test_it_is_a_notebook() -> None:
    nbformat = pytest.importorskip("nbformat")
    nbformat.validate(nbformat.read(NOTEBOOK, as_version=4))
