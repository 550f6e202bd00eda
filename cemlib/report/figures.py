"""Every figure of the report, once: plan, workflow, page and publishing read this table.

To add one: a function in a file here that draws it, and an entry in `FIGURES`. The function takes
what its parameters name: ``runs``, ``attacks``, ``defences``, ``reference``, ``sweeps``,
``points``, ``compared``, ``clusters`` and ``surrogates`` of `cemlib.report.build.Results`, where
these are described, and what is filled in in the figure's name. Nothing here imports matplotlib: a
workflow asks for the names.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from string import Formatter
from typing import NamedTuple

from cemlib.records.scores import SCORES
from cemlib.report import OF_RUNS, WHOLE

CATEGORIES = ("Reconstructions", "Accuracy and privacy", "Training and surrogates")
PICTURES, UTILITY, TRAINING = CATEGORIES


@dataclass(frozen=True)
class Figure:
    """One figure, or one for each score or knowledge.

    Attributes:
        name: of its files, without their ending; what stands in braces is filled in.
        function: that draws it, as module and name below `cemlib.report`.
        title: may have the same braces.
        category: where it stands, one of `CATEGORIES`.
        caption: how it is read.
        part: the job of the report that draws it.
        needs: what only some studies have, ``releases`` or ``sweeps``.
    """

    name: str
    function: str
    title: str
    category: str
    caption: str
    part: str = WHOLE
    needs: str = ""


@dataclass(frozen=True)
class Drawing:
    """One figure as it is drawn.

    Attributes:
        name: of its files, without their ending.
        figure: its entry in the table.
        chosen: what is filled in.
    """

    name: str
    figure: Figure
    chosen: Mapping[str, str]

    @property
    def title(self) -> str:
        """Return the title with what is filled in, as words."""
        words = {key: value.replace("_", " ") for key, value in self.chosen.items()}
        if "score" in words:
            words["score"] = SCORES[words["score"]].title
        return self.figure.title.format(**words)


FIGURES = (
    Figure(
        "reconstructions-{knowledge}",
        "grid.reconstructions",
        "reconstructions by the strongest attack, {knowledge}",
        PICTURES,
        "The first test image of each class, at most ten of those that no attacker owns, then what"
        " the strongest attack reconstructs from each defence's release, and maps of the error on"
        " the defence with the highest MSE. Accuracy and MSE are of the run shown, the lowest seed"
        " that did not fail, over all images attacked. Of more than six defences the first, the"
        " reference and those with the highest worst-case MSE are shown.",
    ),
    Figure(
        "accuracy_{score}",
        "tradeoff.tradeoff",
        "accuracy against {score}",
        UTILITY,
        "Each point is a defence: test accuracy against the score of the attack with the lowest"
        " MSE, with 95 % intervals in both directions. Right, and up for MSE or down for SSIM, is"
        " better. Equal lambda is not equal strength: compare defences at equal accuracy.",
    ),
    Figure(
        "frontier-{knowledge}",
        "tradeoff.frontier",
        "curves of the sweeps, {knowledge}",
        UTILITY,
        "Accuracy against worst-case MSE along each sweep: faint marks are seeds, strong ones their"
        " means with 95 % intervals, and a line joins the means that no other one of that sweep"
        " beats in both. At equal accuracy the higher line is more private; dotted are the"
        " accuracies at which tradeoff.csv compares.",
        needs="sweeps",
    ),
    Figure(
        "overview",
        "bars.overview",
        "accuracy and worst-case error",
        UTILITY,
        "Left, accuracy on the test images of the classifiers as deployed, with their noise; beside"
        " it, for each knowledge of the attacker, the MSE of the strongest attack on each run."
        " Longer bars are better; whiskers are 95 % intervals over the seeds. The mean image is an"
        " attacker that looks at nothing.",
    ),
    Figure(
        "comparisons-{knowledge}",
        "bars.forest",
        "differences to the reference, {knowledge}",
        UTILITY,
        "Each defence minus the reference on the same seeds, with 95 % intervals over the seeds for"
        " each by itself. Left, the worst-case MSE, which is tested: a filled mark is a difference"
        " that is shown after Holm's correction over all defences and knowledges, an open one is"
        " not, whatever its interval. Right, the accuracy, which is not tested. † marks a defence"
        " without a verdict: an attack on it or on the reference had not converged.",
    ),
    Figure(
        "releases",
        "attacks.releases",
        "error against the number of releases",
        UTILITY,
        "Worst-case MSE against how many releases of the same image the attacker may see and"
        " average, both axes logarithmic; whiskers span the seeds. A line that falls shows a"
        " protection that is noise alone.",
        needs="releases",
    ),
    Figure(
        "attack_course",
        "attacks.attack_course",
        "error and recognition while a decoder trains",
        TRAINING,
        "Above, MSE of held-out reconstructions over the epochs of a decoder's training; below, the"
        " share of at most 500 of them that an undefended classifier, trained apart, puts in the"
        " right class. Means over the seeds, above on a band from the lowest to the highest. An"
        " error that still falls at its end means that a longer attack may be stronger.",
    ),
    Figure(
        "training_curves",
        "courses.training_curves",
        "learning curves of the training",
        TRAINING,
        "Cross-entropy of training and validation over the epochs, on one logarithmic scale, and"
        " in each panel the validation accuracy of what was deployed; the bands span the seeds.",
        part=OF_RUNS,
    ),
    Figure(
        "surrogate_course",
        "courses.surrogate_course",
        "how the surrogates worked",
        TRAINING,
        "A row for each surrogate: its penalty, its gradient beside the task's, the leakage bound"
        " (dashed: the reference's), the share of active hinges and a statistic of its own. A"
        " surrogate that does something lowers the bound below the reference's once it has"
        " started.",
        part=OF_RUNS,
    ),
    Figure(
        "cluster_course",
        "clusters.cluster_course",
        "how fitted clusters moved",
        TRAINING,
        "How the clusters of a surrogate that fits any moved from epoch to epoch: thin lines are"
        " classes, the thick one is their mean. An effective number near one means that one cluster"
        " holds all of a class.",
        part=OF_RUNS,
    ),
)


def drawings(part: str, knowledges: Sequence[str], has: Sequence[str] = ()) -> Iterator[Drawing]:
    """Yield what a job of the report draws of a study.

    Args:
        part: the job.
        knowledges: of the study's attackers.
        has: what it has of `Figure.needs`.
    """
    choices = {"score": ("mse", "ssim"), "knowledge": knowledges}
    for figure in FIGURES:
        if figure.part == part and (not figure.needs or figure.needs in has):
            fields = [field for _, field, _, _ in Formatter().parse(figure.name) if field]
            for values in product(*(choices[field] for field in fields)):
                chosen = dict(zip(fields, values, strict=True))
                yield Drawing(figure.name.format(**chosen), figure, chosen)


def drawing(name: str) -> Drawing:
    """Return the drawing of a file by its name without the ending.

    Raises:
        KeyError: if the table has no such figure.
    """
    for figure in FIGURES:
        pattern = re.sub(r"\\{(\w+)\\}", r"(?P<\1>\\w+)", re.escape(figure.name))
        if found := re.fullmatch(pattern, name):
            return Drawing(name, figure, found.groupdict())
    raise KeyError(name)


def modules() -> tuple[str, ...]:
    """Return the modules that draw."""
    names = (figure.function.rpartition(".")[0] for figure in FIGURES)
    return tuple(f"cemlib.report.{name}" for name in dict.fromkeys(names))


# Of the page that `snakemake --report` makes.
EVERY = "all defences"
_TABLES = {
    "summary": "Means over the seeds ± half the width of the 95 % Student-t interval; the arrow at"
    " a score points to the better side for the defender. The first table is the worst case, the"
    " strongest attack on each run, and the one to quote; tables for each attack follow. failed"
    " counts diverged runs.",
    "comparisons": "Each defence minus the reference on the same seeds, with a paired 95 %"
    " interval. The worst-case MSE is tested: judge by its last column, at 5 % after Holm's"
    " correction over all defences and knowledges. The other scores have intervals and no verdict."
    " No difference shown is no evidence of equality. Unconverged: no verdict is drawn, for an"
    " attack on either side had not converged.",
}
_STRIP = (
    "Originals above, reconstructions below: this attack on this defence's run of the first seed."
    " Grey throughout: the run or the attack failed."
)


class Entry(NamedTuple):
    """Say where a file stands in the page of Snakemake, and how it is read."""

    caption: str
    category: str
    subcategory: str
    title: str


def table_entry(table: Path) -> Entry:
    """Return the place of a table by its file."""
    return Entry(_TABLES[table.stem], "Tables", EVERY, table.stem)


def figure_entry(path: Path) -> Entry:
    """Return the place of a figure by its file."""
    found = drawing(path.stem)
    return Entry(found.figure.caption, found.figure.category, EVERY, found.title)


def strip_entry(strip: Path, defence: str) -> Entry:
    """Return the place of the pictures that one attack on one run of a defence left."""
    attack, _, knowledge = strip.parent.name.rpartition("-")
    return Entry(_STRIP, PICTURES, defence, f"{attack}, {knowledge}")
