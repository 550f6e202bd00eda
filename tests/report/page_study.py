"""A synthetic study with all that the results page reads, and its page."""

from pathlib import Path
from typing import Any

import short_study
from PIL import Image
from synthetic_study import Study, fill

from cemlib.config import parse
from cemlib.records.files import write_jsonl
from cemlib.records.seal import write_sealed
from cemlib.report.build import Results
from cemlib.report.frontier import Sweeps
from cemlib.report.page import write_page

DEFENCES = ("none", "noise", "clustering")
FIGURES = (
    "accuracy_mse",
    "reconstructions-train_data",
    "reconstructions-public_data",
    "comparisons-train_data",
)
MARKUP = "</script><script>document.title='pwned'</script><img src=x onerror=alert(1)>&\"'"


def page_study(root: Path) -> Study:
    """Three defences, two seeds; the training of `clustering` failed with seed 1, in markup."""
    study = fill(Study(root), defences=DEFENCES, seeds=2)
    folder = study.add_run("clustering", 1, status="failed", reason=MARKUP)
    write_jsonl(folder.history, [{"epoch": 1, "train_loss": 2.0}])
    facts = {"classes": [*map(str, range(11)), MARKUP], "image_shape": [1, 16, 16]}
    counts = {"train": 400, "val": 50, "test": 120}
    rest = {"counts": counts, "duplicates_train_test": 3}
    write_sealed(study.root / "data/data.json", facts | rest)
    return study


def settings() -> dict[str, Any]:
    """Of the study, as its configuration gives them."""
    study = parse(
        short_study.STUDY
        | {
            "experiment": "synthetic",
            "seeds": [0, 1],
            "defences": {"none": {"noise_std": 0.0}, "noise": {}, "clustering": {}},
            "reference": "noise",
        }
    )
    return study.plain()


def figures(study: Study) -> list[Path]:
    """A few pictures by the names of the report's."""
    paths = [study.root / f"figures/{name}.png" for name in FIGURES]
    for path in paths:
        path.parent.mkdir(exist_ok=True)
        Image.new("RGB", (700, 300), "white").save(path)
    return paths


def build(
    study: Study, out: Path, config: dict[str, Any] | None = None, sweeps: Sweeps | None = None
) -> Path:
    """Write the page of a study."""
    return write_page(
        Results(*study.frames(), DEFENCES, reference="noise", sweeps=sweeps or Sweeps()),
        [*study.runs, *study.attacks],
        out,
        data=study.root / "data/data.json",
        figures=figures(study),
        settings=config or settings(),
    )
