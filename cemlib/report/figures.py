"""The table of all figures, which plan, workflow, page and publishing read.

A function that draws one is given the attributes of `cemlib.report.build.Results` that its
parameters name, and the value that replaces the braces in the figure's name. Nothing here imports
matplotlib, since a workflow asks for the names.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from cemlib.records.layout import KNOWLEDGES
from cemlib.records.scores import SCORES
from cemlib.report import OF_RUNS, WHOLE

CATEGORIES = ("Reconstructions", "Accuracy and privacy", "Training and surrogates")
PICTURES, UTILITY, TRAINING = CATEGORIES


@dataclass(frozen=True)
class Drawing:
    """One figure, or in `FIGURES` one for each score or knowledge."""

    name: str  # of its files without extension, perhaps with `{score}` or `{knowledge}`
    function: str  # that draws it, as module and name below `cemlib.report`
    title: str  # perhaps with the same braces
    category: str  # one of `CATEGORIES`
    caption: str  # how to read it
    part: str = WHOLE  # the job of the report that draws it
    needs: str = ""  # `releases` (several numbers) or `sweeps`, if it needs a study with them
    chosen: Mapping[str, str] = field(default_factory=dict)  # what replaced the braces, by its name


FIGURES = (
    Drawing(
        "reconstructions-{knowledge}",
        "grid.reconstructions",
        "reconstructions by the strongest attack, {knowledge}",
        PICTURES,
        "For at most ten classes, the first test image that no attacker owns, its reconstruction by"
        " the strongest attack on each defence, and maps of the error on the defence with the"
        " highest MSE. Accuracy and MSE are of the run shown, the lowest seed that did not fail,"
        " over all images attacked. Of each sweep only the Pareto point nearest"
        " to the last accuracy of tradeoff.csv is shown; if more than six defences are left, these"
        " are the first, the reference, that of the first sweep, and those with the highest"
        " worst-case MSE.",
    ),
    Drawing(
        "accuracy_{score}",
        "tradeoff.tradeoff",
        "accuracy against {score}",
        UTILITY,
        "Each point is a defence: test accuracy against the score of the attack with the lowest"
        " MSE, with 95 % intervals in both directions. Points further to the right, and higher for"
        " MSE or lower for SSIM, are better. Equal lambda is not equal strength: compare defences"
        " at equal accuracy.",
    ),
    Drawing(
        "frontier-{knowledge}",
        "tradeoff.frontier",
        "curves of the sweeps, {knowledge}",
        UTILITY,
        "Accuracy against worst-case MSE along each sweep: faint marks are seeds, strong ones their"
        " means, with 95 % intervals where there are few, and a line joins those that no other mean"
        " of that sweep beats in both. At equal accuracy the higher line is more private. Dotted"
        " lines are the accuracies of tradeoff.csv.",
        needs="sweeps",
    ),
    Drawing(
        "overview",
        "bars.overview",
        "accuracy and worst-case error",
        UTILITY,
        "Left, test accuracy of the classifiers as deployed, with their noise; beside it, for each"
        " knowledge of the attacker, the MSE of the strongest attack on each run. Longer bars are"
        " better; whiskers are 95 % intervals over the seeds. The mean image is an attacker who"
        " does not use the release. A classifier at chance on some seed is marked (chance).",
    ),
    Drawing(
        "comparisons-{knowledge}",
        "bars.forest",
        "differences from the reference, {knowledge}",
        UTILITY,
        "Each defence minus the reference on the same seeds, with uncorrected 95 % intervals over"
        " the seeds. Left, the worst-case MSE, which is tested: a filled mark is a difference that"
        " is shown after Holm's correction over all defences and both kinds of knowledge, an open"
        " one is a difference that is not shown, whatever its interval, or that rests on a"
        " classifier at chance. Right, the accuracy, which is not tested. † marks a"
        " defence without a verdict: the attack quoted for it or the reference had not converged.",
    ),
    Drawing(
        "releases",
        "attacks.releases",
        "error against the number of releases",
        UTILITY,
        "Worst-case MSE against the number of releases of the same image that the attacker may see"
        " and average, both axes logarithmic; whiskers span the seeds. Where a line falls,"
        " averaging removes protection.",
        needs="releases",
    ),
    Drawing(
        "attack_curves",
        "attacks.attack_curves",
        "error and identified share of a decoder",
        TRAINING,
        "Above, MSE of held-out reconstructions over the epochs of a decoder's training; below, the"
        " share of at most 500 of them that a separate undefended classifier assigns to the"
        " right class. Lines are means over the seeds; above, a band spans the seeds. An error"
        " that still falls at the end means that a longer attack may be stronger.",
    ),
    Drawing(
        "training_curves",
        "learning_curves.training_curves",
        "learning curves of the training",
        TRAINING,
        "Cross-entropy of training (with the defence's label smoothing) and validation over the"
        " epochs, on one logarithmic scale, and in each panel the validation accuracy of what was"
        " deployed; the bands span the seeds.",
        part=OF_RUNS,
    ),
    Drawing(
        "surrogate_curves",
        "learning_curves.surrogate_curves",
        "how the surrogates worked",
        TRAINING,
        "A row for each surrogate: its penalty, its gradient beside the task's, the leakage bound"
        " (dashed: the reference's), the share of active hinges and a statistic of its own. An"
        " effective surrogate lowers the bound below the reference's once it has started.",
        part=OF_RUNS,
    ),
)


def drawings(
    part: str, knowledges: Sequence[str], releases: Iterable[int], sweeps: bool
) -> Iterator[Drawing]:
    """Yield the figures of a part, braces replaced; `releases` are the numbers that attacks see."""
    has = {"": True, "releases": len({*releases}) > 1, "sweeps": sweeps}
    choices = {"score": ("mse", "ssim"), "knowledge": knowledges}
    for figure in FIGURES:
        if figure.part == part and has[figure.needs]:
            key = next((key for key in choices if f"{{{key}}}" in figure.name), None)
            yield from [_filled(figure, key, value) for value in choices[key]] if key else [figure]


def _filled(figure: Drawing, key: str, value: str) -> Drawing:
    words = SCORES[value].title if key == "score" else value.replace("_", " ")
    name, title = figure.name.format(**{key: value}), figure.title.format(**{key: words})
    return replace(figure, name=name, title=title, chosen={key: value})


DRAWINGS = {
    drawing.name: drawing
    for part in (WHOLE, OF_RUNS)
    for drawing in drawings(part, KNOWLEDGES, (1, 2), sweeps=True)
}
"""Every possible figure, by the name of its files without extension."""


def modules() -> tuple[str, ...]:
    """Return the names of the modules that draw the figures."""
    names = (figure.function.rpartition(".")[0] for figure in FIGURES)
    return tuple(f"cemlib.report.{name}" for name in dict.fromkeys(names))
