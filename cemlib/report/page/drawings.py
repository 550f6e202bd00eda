"""The figures of the report on the page: where each stands, and how it is read."""

from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

from PIL import Image, UnidentifiedImageError

from cemlib.files import FileError
from cemlib.report.page.contents import Drawing
from cemlib.report.page.pictures import data_uri

PARTS = ("tradeoff", "reconstructions", "extremes", "comparisons", "training", "surrogates", "more")


@dataclass(frozen=True)
class _Words:
    part: str
    title: str
    caption: str


_MEANS = "Means over the seeds with 95 % intervals."
_TEXTS = {
    "accuracy_mse": _Words(
        "tradeoff",
        "Accuracy against reconstruction error",
        "One point per defence, with an interval in both directions. Right and up is better:"
        " accurate, and hard to reconstruct. Compare defences at equal accuracy.",
    ),
    "accuracy_ssim": _Words(
        "tradeoff",
        "Accuracy against structural similarity",
        "The same with SSIM. Right and down is better.",
    ),
    "privacy": _Words(
        "tradeoff",
        "Reconstruction error of the worst case",
        f"{_MEANS} The name beside each bar is the strongest attack. The mean image is an attacker"
        " that looks at nothing.",
    ),
    "releases": _Words(
        "tradeoff",
        "Several releases of the same image",
        "Worst-case MSE where the attacker sees n releases of the same image: what is lost from"
        " left to right was bought from noise, which averages out.",
    ),
    "per_image_mse": _Words(
        "extremes",
        "Spread of the error over the images",
        "A mean hides who is exposed: at the left end of each line are the least protected images.",
    ),
    "training_curves": _Words(
        "training",
        "Training curves of all defences",
        "Lines are means over the seeds, bands reach from the lowest to the highest seed.",
    ),
    "attack_curves": _Words(
        "training",
        "Learning curves of the attacks",
        "A line that still falls at its end is an attack that was stopped early: a longer one may"
        " be stronger.",
    ),
    "recognition_course": _Words(
        "training",
        "What is recognised while the decoder is trained",
        "Share of at most 1,000 held-out reconstructions that the judge puts in the right class."
        " Lines are means over the seeds, bands reach from the lowest to the highest seed.",
    ),
    "cluster_course": _Words(
        "surrogates",
        "How the clusters moved",
        "Clusters fitted after every epoch, by the surrogates that fit any.",
    ),
    "accuracy": _Words("more", "Accuracy", f"{_MEANS} Right: close up, with a mark per seed."),
    "psnr": _Words("more", "PSNR of the worst case", f"{_MEANS} Lower is more private."),
    "identification": _Words(
        "more",
        "What can still be recognised",
        "Share of the reconstructions that an undefended classifier, trained apart, puts in the"
        " right class.",
    ),
}
# Figures of which there is one for each attack, knowledge or defence, by how their names begin.
_SERIES = {
    "reconstructions_": _Words(
        "reconstructions",
        "Reconstructions by",
        "Originals in the first row; below them each defence's reconstructions, lowest finished"
        " seed.",
    ),
    "frontier-": _Words(
        "tradeoff",
        "Curves of the sweeps, attacker has",
        "One line per sweep, through the means that no other one of it beats in both; faint marks"
        " are seeds. Dotted: the accuracies at which tradeoff.csv compares the sweeps.",
    ),
    "extremes-": _Words(
        "extremes",
        "Least and most protected images, attacker has",
        "Left the images with the lowest MSE, right those with the highest: originals above their"
        " reconstructions by the strongest attack, lowest finished seed.",
    ),
    "comparisons-": _Words(
        "comparisons",
        "Differences to the reference, attacker has",
        "Paired over the seeds, with 95 % intervals of each by itself. Filled marks: shown after"
        " the correction over the study.",
    ),
    "surrogate_": _Words(
        "surrogates", "How the surrogate worked:", "Epoch by epoch, over the seeds."
    ),
}


def drawings(paths: Sequence[Path]) -> dict[str, list[Drawing]]:
    """The drawings of PNG files, by the `PARTS` of the page.

    The order is that of `_TEXTS`; what is one of a series comes after it, in the order given.

    Raises:
        FileError: naming a figure that is missing or no picture.
    """
    parts: dict[str, list[Drawing]] = {part: [] for part in PARTS}
    order = list(_TEXTS)
    for path in sorted(
        paths, key=lambda p: order.index(p.stem) if p.stem in _TEXTS else len(order)
    ):
        words = _words(path.stem)
        parts[words.part].append(_drawing(path, words))
    return parts


def _words(name: str) -> _Words:
    for beginning, words in _SERIES.items():
        if name.startswith(beginning):
            rest = name.removeprefix(beginning).replace("-", ", attacker has ").replace("_", " ")
            return _Words(words.part, f"{words.title} {rest}", words.caption)
    return _TEXTS[name]


def _drawing(path: Path, words: _Words) -> Drawing:
    try:
        content = path.read_bytes()
        with Image.open(BytesIO(content)) as image:
            width, height = image.size
    except (OSError, UnidentifiedImageError) as error:
        raise FileError(f"{path}: cannot be read as a picture ({error}); draw it again") from error
    return Drawing(path.stem, words.title, words.caption, data_uri(content), width, height)
