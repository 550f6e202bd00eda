"""Write the tables and figures of a labelling study."""

from collections.abc import Iterator
from pathlib import Path

from cemlib.config.labelling import SECURE_BITS, LabellingStudy
from cemlib.labelling import figures, tables
from cemlib.report.cells import DIFFERENCES, finished, mean, number
from cemlib.report.style import save, settings
from cemlib.report.writer import Column, Layout, Row, write_table
from cemlib.study.job import Job
from cemlib.study.labelling import FIGURES


def _way(row: Row) -> str:
    """Return the source of a row, with its way of encryption or, if not ours, its participants."""
    if row["source"] != "ours":
        return f"{row['source']}, {row['participants']} participants"
    beforehand = ", blindings precomputed" if row["precomputed"] else ""
    return f"ours: packing {row['packing']}, blinding {row['blinding']}{beforehand}"


POSTERIOR = (
    "IEL weights an answer by the probability, given the noisy counts, that it has most votes."
)
_ACCURACIES: tuple[Column, ...] = (
    ("CaPC-style [%] ↑", mean("capc_top1", 2, 100)),
    ("IEL [%] ↑", mean("iel_top1", 2, 100)),
)
_QUALITY: tuple[Column, ...] = (
    ("label accuracy [%]", mean("label_accuracy", 2, 100)),
    ("refused [%]", mean("refused", 2, 100)),
    ("mean weight [%]", mean("mean_weight", 2, 100)),
)
_EXACT: tuple[Column, ...] = (
    ("ε, one query", number("epsilon_query_exact")),
    ("ε, all queries", number("epsilon_total_exact")),
    ("δ", number("delta")),
)
_STATED: tuple[Column, ...] = (
    ("ε by the formula", number("epsilon_query")),
    ("σ", number("sigma", ".4g")),
    ("ε, all queries (strong composition)", number("epsilon_total_published")),
)
_IMAGES: Column = ("images", number("images", ",.0f"))
LAYOUTS: dict[str, Layout] = {
    "accuracy": (
        "Accuracy before and after labelling",
        (
            _IMAGES,
            ("repeats", finished("n_repeats")),
            ("before [%] ↑", mean("init_top1", 2, 100)),
            *_ACCURACIES,
            ("constant weight [%] ↑", mean("constant_top1", 2, 100)),
            *_QUALITY,
            *_STATED,
            *_EXACT,
        ),
    ),
    "differences": (
        "Paired differences in accuracy, points",
        (_IMAGES, ("pair", lambda row: f"{row['first']} - {row['second']}"), *DIFFERENCES),
    ),
    "epsilon": (
        "Accuracy against epsilon",
        (
            _IMAGES,
            ("repeats", finished("n_repeats")),
            *_STATED[:2],
            *_ACCURACIES,
            *_QUALITY,
            *_EXACT,
        ),
    ),
    "privacy": (
        "Privacy of a vote",
        (
            ("observer", number("observer")),
            ("neighbours", number("neighbours")),
            ("sensitivity", number("sensitivity")),
            ("σ unknown to it", number("sigma", ".4g")),
            *_EXACT,
        ),
    ),
    "cost": (
        "Cost of one image of ten classes, all participants together",
        (
            ("way", _way),
            ("key bits", number("key_bits", ".4g")),
            ("encryption [s]", number("encrypt_seconds")),
            ("before the votes [s]", number("offline_seconds")),
            ("decryption [s]", number("decrypt_seconds")),
            ("exponent, encryption", number("encrypt_exponent")),
            ("exponent, decryption", number("decrypt_exponent")),
            ("bytes", number("bytes", ",.0f")),
            ("ciphertexts of one", number("ciphertexts")),
        ),
    ),
}
"""Caption and columns of each table."""


def notes(study: LabellingStudy) -> list[str]:
    """Return the notes that are printed above every table."""
    privacy, n = study.privacy, study.participants
    bits = study.encryption.key_bits
    key = " It is for testing: it protects nothing." if bits < SECURE_BITS else ""
    weight = "" if study.certainty == "entropy" else f" {POSTERIOR}"
    return [
        f"{n} participants vote on {study.queries} images, and each of them in turn is the"
        f" requester; accuracies are means over the participants. Mean over the repeats ± half"
        " width of the 95 % Student-t interval; every repeat redistributes the same images, so"
        " the intervals cover repeated training, not new data.",
        "Noise: N(0, σ²) in every count, σ² in total over the participants; σ = sensitivity"
        f" sqrt(2 ln(1.25/δ)) / ε with δ = {privacy.delta:g} and sensitivity"
        f" {privacy.sensitivity:.4g}. The formula's proof needs ε < 1. `ε, one query` and `ε, all"
        " queries` are exact and, where no neighbours are named, of one changed vote."
        " `strong composition` is that of the formula's ε, as published, with a δ of"
        f" {(study.queries + 1) * privacy.delta:.3g}.",
        "A refused query has no positive count: it is left out of the training, and counted in"
        f" every total.{weight}",
        f"Votes were encrypted with a key of {bits} bits.{key}",
    ]


def run(job: Job[LabellingStudy]) -> Iterator[Path]:
    """Write all tables and figures, and yield the files; raise FileError if a record is damaged."""
    results, study, layout = tables.collect(job), job.plan.study, job.plan.layout
    for name, columns in LAYOUTS.items():
        frame = getattr(tables, f"{name}_table")(results, study)
        yield from write_table(layout.tables, name, frame, columns, notes(study))
    for name in FIGURES:
        with settings():
            figure = getattr(figures, name)(results, study)
        yield from save(figure, layout.figures, name)
