"""Every figure of the report, once: plan, workflow, page and publishing read this table.

To add one: a function in a file here that draws it, and a line in `FIGURES`. The function takes
what its parameters name: ``runs``, ``attacks``, ``defences``, ``reference``, ``sweeps``, ``points``
and ``clusters`` of `cemlib.report.results.Results`, and what is filled in in the figure's name.
Nothing here imports matplotlib: a workflow asks for the names.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from string import Formatter

from cemlib.report import CLUSTERS, SURROGATES, WHOLE
from cemlib.scores import SCORES

UTILITY, PICTURES, TRAINING = (
    "Accuracy and privacy",
    "Reconstructions",
    "Training and surrogates",
)
CATEGORIES = (UTILITY, PICTURES, TRAINING)
MAIN = {"score": "mse", "attack": "decoder", "knowledge": "train_data"}  # what is published


@dataclass(frozen=True)
class Figure:
    """One figure, or one for each score, attack, knowledge or defence.

    Attributes:
        name: of its files, without their ending; what stands in braces is filled in.
        function: that draws it, as module and name below `cemlib.report`.
        title: may have the same braces.
        category: where it stands, one of `CATEGORIES`.
        caption: how it is read.
        part: the job of the report that draws it.
        needs: what only some studies have, ``releases`` or ``sweeps``.
        published: whether it is copied to what is under version control, as far as `MAIN` says.
    """

    name: str
    function: str
    title: str
    category: str
    caption: str
    part: str = WHOLE
    needs: str = ""
    published: bool = False


@dataclass(frozen=True)
class Drawing:
    """One figure as it is drawn.

    Attributes:
        name: of its files, without their ending.
        figure: its line in the table.
        chosen: what is filled in.
    """

    name: str
    figure: Figure
    chosen: Mapping[str, str]

    @property
    def title(self) -> str:
        """Title with what is filled in, as words."""
        words = {key: value.replace("_", " ") for key, value in self.chosen.items()}
        if "score" in words:
            words["score"] = SCORES[words["score"]].title
        return self.figure.title.format(**words)

    @property
    def is_published(self) -> bool:
        """Whether it is copied to what is under version control."""
        main = all(MAIN.get(key, value) == value for key, value in self.chosen.items())
        return self.figure.published and main


FIGURES = (
    Figure(
        "accuracy_{score}",
        "tradeoff.tradeoff",
        "accuracy against {score}",
        UTILITY,
        "Each point is a defence: test accuracy against the worst-case score, with 95 % intervals"
        " in both directions. Right, and up for MSE or down for SSIM, is better. Equal lambda is"
        " not equal strength: compare defences at equal accuracy.",
        published=True,
    ),
    Figure(
        "frontier-{knowledge}",
        "frontier_figure.frontier",
        "curves of the sweeps, {knowledge}",
        UTILITY,
        "Accuracy against worst-case MSE along each sweep: faint marks are seeds, strong ones their"
        " means with 95 % intervals, and a line joins the means that no other one of that sweep"
        " beats in both. At equal accuracy the higher line is more private; dotted are the"
        " accuracies at which tradeoff.csv compares.",
        needs="sweeps",
        published=True,
    ),
    Figure(
        "privacy",
        "bars.privacy",
        "worst-case error (MSE)",
        UTILITY,
        "MSE of the strongest attack on each run, one panel for each knowledge of the attacker. A"
        " higher bar is more privacy; whiskers are 95 % intervals over the seeds. The mean image is"
        " an attacker that looks at nothing.",
        published=True,
    ),
    Figure(
        "comparisons-{knowledge}",
        "forest.forest",
        "differences to the reference, {knowledge}",
        UTILITY,
        "Each defence minus the reference on the same seeds: worst-case error left, test accuracy"
        " right, with 95 % intervals over the seeds for each by itself. A filled mark is a"
        " difference that the test shows after Holm's correction over all comparisons of the study;"
        " an open one is not shown, whatever its interval. † marks a defence without a verdict: an"
        " attack on it or on the reference had not converged.",
        published=True,
    ),
    Figure(
        "releases",
        "releases.releases",
        "error against the number of releases",
        UTILITY,
        "Worst-case MSE against how many releases of the same image the attacker may see and"
        " average, both axes logarithmic; whiskers span the seeds. A line that falls shows a"
        " protection that is noise alone.",
        needs="releases",
        published=True,
    ),
    Figure(
        "accuracy",
        "bars.accuracy",
        "test accuracy",
        UTILITY,
        "Accuracy on the test images of the classifiers as deployed, with their noise. Left: bars"
        " from zero, so that lengths can be compared. Right: the same means spread out, with every"
        " seed and the 95 % interval; where intervals overlap widely, the seeds do not tell these"
        " defences apart.",
    ),
    Figure(
        "psnr",
        "bars.psnr",
        "worst-case PSNR",
        UTILITY,
        "PSNR in dB of the strongest attack on each run, the mean over images. A lower bar is more"
        " privacy: 10 dB less is ten times the squared error.",
    ),
    Figure(
        "identification",
        "bars.identification",
        "identified reconstructions",
        UTILITY,
        "Share of the worst case's reconstructions that an undefended classifier, trained apart,"
        " puts in the right class. Error and identification need not agree: a blurred image may"
        " still show what it is.",
    ),
    Figure(
        "reconstructions_{attack}-{knowledge}",
        "grid.reconstructions",
        "reconstructions by {attack}, {knowledge}",
        PICTURES,
        "The same test images in every row: originals first, then what this attack reconstructed"
        " from each defence, at the lowest seed that did not fail, with its MSE over all attacked"
        " images.",
        published=True,
    ),
    Figure(
        "extremes-{knowledge}",
        "extremes.extremes",
        "least and most protected images, {knowledge}",
        PICTURES,
        "For each defence, the images that it protects least and most against the strongest attack,"
        " above their reconstructions. The least protected ones say what a mean does not promise.",
        published=True,
    ),
    Figure(
        "per_image_mse",
        "per_image.per_image_mse",
        "error of every image",
        PICTURES,
        "How the strongest attack's error is spread over the test images, on a logarithmic scale,"
        " with the mean image's row as reference: an image that lies left of it is reconstructed"
        " better than by an attacker who sees nothing. A mean hides the images at the left end,"
        " which are the exposed ones.",
        published=True,
    ),
    Figure(
        "training_curves",
        "curves.training_curves",
        "learning curves of the training",
        TRAINING,
        "Loss, validation accuracy, strength of the surrogate (lambda as it is applied) and its"
        " value over the epochs of the training; the band spans the seeds.",
    ),
    Figure(
        "attack_curves",
        "curves.attack_curves",
        "learning curves of the attacks",
        TRAINING,
        "MSE of each learned attack over its epochs, the mean over the seeds on a band from the"
        " lowest to the highest. A curve that still falls at its end means that a longer attack may"
        " be stronger.",
    ),
    Figure(
        "recognition_course",
        "curves.recognition_course",
        "recognition while a decoder trains",
        TRAINING,
        "Share of at most 1,000 held-out reconstructions that the judge, an undefended classifier"
        " trained apart, puts in the right class, over the epochs of a decoder's training: the mean"
        " over the seeds on a band from the lowest to the highest. It shows how soon an attacker"
        " sees who is in the picture.",
    ),
    Figure(
        "cluster_course",
        "clusters.cluster_course",
        "how fitted clusters moved",
        TRAINING,
        "How the clusters of a surrogate that fits any moved from epoch to epoch: thin lines are"
        " classes, the thick one is their mean. An effective number near one means that one cluster"
        " holds all of a class.",
        part=CLUSTERS,
    ),
    Figure(
        "surrogate_{defence}",
        "surrogates.surrogate_course",
        "how the surrogate worked: {defence}",
        TRAINING,
        "How this defence's surrogate worked, epoch by epoch: its penalty, its gradient, the"
        " leakage bound (the reference's is drawn beside it), the share of active hinges and"
        " statistics of its own. A surrogate that does something lowers the bound below the"
        " reference's once it has started.",
        part=SURROGATES,
        published=True,
    ),
)


def drawings(
    part: str, choices: Mapping[str, Sequence[str]], has: Sequence[str] = ()
) -> Iterator[Drawing]:
    """Return what a job of the report draws of a study.

    Args:
        part: the job.
        choices: the study's attacks, knowledges and defences, by ``attack`` and so on.
        has: what it has of `Figure.needs`.
    """
    filled = {"score": ("mse", "ssim"), **choices}
    for figure in FIGURES:
        if figure.part == part and (not figure.needs or figure.needs in has):
            fields = [field for _, field, _, _ in Formatter().parse(figure.name) if field]
            for values in product(*(filled[field] for field in fields)):
                chosen = dict(zip(fields, values, strict=True))
                yield Drawing(figure.name.format(**chosen), figure, chosen)


def drawing(name: str) -> Drawing:
    """Return the drawing of a file by its name without the ending.

    Raises:
        KeyError: if the table has no such figure.
    """
    for figure in FIGURES:
        pattern = re.sub(r"\\{(\w+)\\}", r"(?P<\1>.+)", re.escape(figure.name))
        if found := re.fullmatch(pattern, name):
            return Drawing(name, figure, found.groupdict())
    raise KeyError(name)


def modules() -> tuple[str, ...]:
    """Return the modules that draw."""
    names = (figure.function.rpartition(".")[0] for figure in FIGURES)
    return tuple(f"cemlib.report.{name}" for name in dict.fromkeys(names))
