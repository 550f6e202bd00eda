"""Write the tables and figures of a federated study."""

from collections.abc import Iterator
from pathlib import Path

from cemlib.config.federated import Federated
from cemlib.federated import figures, tables
from cemlib.records.scores import ATTACK_SCORES, SCORES
from cemlib.report.cells import DIFFERENCES, finished, mean, number
from cemlib.report.style import save, settings
from cemlib.report.writer import Column, Layout, write_table
from cemlib.study.federated import FIGURES, PSEUDO_FIGURES, FederatedJob

_VARIANT: Column = ("variant", number("variant"))
_SETTINGS: tuple[Column, ...] = (
    ("λ", number("lam")),
    ("α", number("alpha")),
    ("β", number("beta")),
    ("order", number("order")),
    ("noise", number("noise_multiplier")),
)
_TOP1: Column = (SCORES["top1"].heading, mean("top1", 2, 100))
_SCORES: tuple[Column, ...] = tuple(
    (SCORES[name].heading, mean(name, SCORES[name].decimals)) for name in ATTACK_SCORES
)
LAYOUTS: dict[str, Layout] = {
    "accuracy": (
        "Test accuracy after the last round",
        (
            _VARIANT,
            *_SETTINGS,
            ("seeds", finished("n_seeds")),
            _TOP1,
            ("ε", number("epsilon")),
            ("asked", number("asked", ",.0f")),
            ("dropped out", number("dropped", ",.0f")),
            ("excluded", number("excluded", ",.0f")),
        ),
    ),
    "differences": (
        "Accuracy minus the reference's, paired over the seeds, points",
        (_VARIANT, ("reference", number("reference")), *DIFFERENCES),
    ),
    "privacy": (
        "Gradient inversion: reconstruction against the true image",
        (
            _VARIANT,
            ("attack", number("attack")),
            ("mask", number("mask")),
            *_SCORES,
            ("labels found [%]", number("label_right", ".0f", 100)),
            ("images", number("n_images", ",.0f")),
        ),
    ),
    "tradeoff": (
        "Accuracy, and the strongest attack on each image",
        (_VARIANT, *_SETTINGS, _TOP1, *_SCORES),
    ),
    "cost": (
        "Cost of a round, all clients in one process",
        (
            _VARIANT,
            ("seconds", mean("seconds", 4)),
            ("times the reference's", number("times_reference")),
            ("bytes up", number("bytes_up_per_round", ",.0f")),
            ("bytes down", number("bytes_down_per_round", ",.0f")),
            ("GANs of all clients [s]", number("gan_seconds")),
        ),
    ),
}
"""Caption and columns of each table."""


def notes(study: Federated, results: tables.Results) -> list[str]:
    """Return the notes that are printed above every table."""
    clients, train, attacked = study.clients, study.train, study.inversion
    steps = attacked.local_steps
    deltas = sorted({each.dp_sgd.delta for each in study.variants.values() if each.dp_sgd})
    private = (
        f" ε: DP-SGD's at δ {', '.join(map('{:g}'.format, deltas))}, for the client with the fewest"
        " images; it assumes Poisson sampling."
    )
    shared = "gradient" if steps == 1 else f"update of {steps} steps at the rate {train.lr}"
    found = [
        f"{clients.number} clients ({clients.split}), {100 * clients.participation:.0f} % asked in"
        f" each of {train.rounds} rounds of {train.local_steps} steps on {train.batch_size} images."
        f" Seeds: {', '.join(map(str, study.seeds))}. A mean ± half the width of its 95 % interval,"
        " over the seeds, and for attacks over seeds and images.",
        f"{attacked.images} test images are attacked, {attacked.behind} behind each {shared},"
        f" at the {attacked.weights} weights. `worst_case` is the attack"
        " that comes closest, image by image. An adaptive attacker knows the mask or reads it off"
        " the zeros. Arrows point to the better side for the clients.",
        "λ: share of the real image. α: share of the features that is masked. β: outputs whose"
        f" gradients are masked.{private if deltas else ''}",
    ]
    sources = sorted(set(results.pseudo["source"]))
    return found + [f"F before the discriminator: {source}." for source in sources]


def run(job: FederatedJob) -> Iterator[Path]:
    """Write every table in every format, and every figure as PNG and PDF; yield the files."""
    plan, results, study = job.plan, tables.collect(job.plan), job.plan.study
    for name, layout in LAYOUTS.items():
        frame = getattr(tables, f"{name}_table")(results, study)
        yield from write_table(plan.layout.tables, name, frame, layout, notes(study, results))
    for name in FIGURES + (PSEUDO_FIGURES if study.mixes() else ()):
        with settings():
            figure = getattr(figures, name)(plan, results)
        yield from save(figure, plan.layout.figures, name)
