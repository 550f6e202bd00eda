"""Where each table, figure and picture stands in the page that `snakemake --report` makes.

Files are known by the names of `cemlib.report`. Captions are those of `workflow/report/`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cemlib.report import CLUSTER_COURSE, RELEASES, frontier_name

SCORES, PICTURES, TRAINING, TABLES = (
    "Accuracy and privacy",
    "Reconstructions",
    "Training and surrogates",
    "Tables",
)
EVERY = "all defences"
_FRONTIER = frontier_name("")


@dataclass(frozen=True)
class Entry:
    """Place of one file: its caption's file name, two levels of categories, and its labels."""

    caption: str
    category: str
    subcategory: str
    labels: Mapping[str, str]


# Caption (without .rst), category and title of every figure whose name is always the same.
_FIGURES = {
    "accuracy": ("accuracy", SCORES, "test accuracy"),
    "privacy": ("privacy", SCORES, "worst-case error (MSE)"),
    "psnr": ("psnr", SCORES, "worst-case PSNR"),
    "per_image_mse": ("per_image_mse", SCORES, "error of every image"),
    "identification": ("identification", SCORES, "identified reconstructions"),
    "accuracy_mse": ("tradeoff", SCORES, "accuracy against MSE"),
    "accuracy_ssim": ("tradeoff", SCORES, "accuracy against SSIM"),
    RELEASES: ("releases", SCORES, "error against the number of releases"),
    "attack_curves": ("attack_curves", TRAINING, "learning curves of the attacks"),
    "recognition_course": ("recognition_course", TRAINING, "recognition while a decoder trains"),
    "training_curves": ("training_curves", TRAINING, "learning curves of the training"),
    CLUSTER_COURSE: ("cluster_course", TRAINING, "how fitted clusters moved"),
}


def table_entry(table: Path) -> Entry:
    """Place of a table by its file."""
    return Entry(table.stem, TABLES, EVERY, {"table": table.stem})


def figure_entry(figure: Path) -> Entry:
    """Place of a figure by its file."""
    if figure.stem.startswith(_FRONTIER):
        knowledge = figure.stem.removeprefix(_FRONTIER)
        title = f"curves of the sweeps, {knowledge}"
        return Entry("frontier", SCORES, EVERY, {"figure": title})
    kind, _, rest = figure.stem.partition("_")
    if figure.stem in _FIGURES:
        caption, category, title = _FIGURES[figure.stem]
        return Entry(caption, category, EVERY, {"figure": title})
    if kind == "surrogate":
        return Entry("surrogate", TRAINING, rest, {"figure": "how the surrogate worked"})
    if figure.stem.startswith("comparisons-"):
        title = f"differences to the reference, {figure.stem.removeprefix('comparisons-')}"
        return Entry("forest", SCORES, EVERY, {"figure": title})
    attack, _, knowledge = rest.rpartition("-")
    if kind == "reconstructions":
        return Entry("reconstructions", PICTURES, EVERY, _seen(attack, knowledge))
    knowledge = figure.stem.partition("-")[2]
    return Entry("extremes", PICTURES, EVERY, _seen("extremes of the strongest", knowledge))


def strip_entry(strip: Path, defence: str) -> Entry:
    """Place of the pictures that one attack on one run of a defence left."""
    attack, _, knowledge = strip.parent.name.rpartition("-")
    return Entry("strip", PICTURES, defence, _seen(attack, knowledge))


def _seen(attack: str, knowledge: str) -> dict[str, str]:
    return {"attack": attack, "knowledge": knowledge}
