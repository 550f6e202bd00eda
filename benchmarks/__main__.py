"""Measure the cost of this package's computations: `python -m benchmarks --help`."""

import argparse
import json
import platform
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from typing import Any

import torch

from benchmarks.measure import Row, best_precision, rate
from benchmarks.others import decoders, metrics, reading, start
from benchmarks.setting import Scale
from benchmarks.surrogates import fits, surrogates
from benchmarks.training import training
from cemlib.cli.options import positive
from cemlib.records.provenance import device_name, git_state
from cemlib.report.writer import Table, markdown_table

PARTS: dict[str, tuple[Callable[[Scale], Iterator[Row]], str]] = {
    "training": (training, "the field's plain float32 loop with a DataLoader"),
    "surrogates": (surrogates, "Python loops over classes and clusters; share: of a training step"),
    "fits": (fits, "scikit-learn, class by class, in float32; share: of an epoch's steps"),
    "decoders": (decoders, "a float32 loop that sends its images through the encoder"),
    "metrics": (metrics, "torchmetrics, the same window"),
    "reading": (reading, "torchvision's ImageFolder"),
    "start": (start, "python -c 'import torch'"),
}
COLUMNS = {
    "ours_images_per_second": "ours [img/s]",
    "reference_images_per_second": "reference [img/s]",
    "share": "share",
    "ours_ms": "ours [ms]",
    "reference_ms": "reference [ms]",
    "times_faster": "times faster",
    "floor_ms": "floor [ms]",
    "floor_share": "floor / ours",
}


SIZES = ("device", "threads", "steps", "rounds", "workers")  # of a `Scale`, by the options


def main() -> None:
    """Measure the chosen parts; print tables, or one JSON object."""
    options = _parser().parse_args()
    scale = Scale(**{name: getattr(options, name) for name in SIZES})
    found = machine(scale)
    names = options.part or PARTS
    if options.json:
        print(json.dumps(found | {name: list(PARTS[name][0](scale)) for name in names}, indent=2))
        return
    print(", ".join(f"{name} {value}" for name, value in found.items() if name != "scale"))
    for name in names:
        part, against = PARTS[name]
        print(f"\n### {name}\n\nReference: {against}.\n\n{table(part(scale))}", flush=True)


def machine(scale: Scale) -> dict[str, Any]:
    """Return facts about machine, code and scale, with the FLOP/s of large matrix products."""
    return {
        "device": device_name(scale.device),
        "processor": torch.cpu.get_capabilities().get("cpu_name", platform.machine()),
        "torch": torch.__version__,
        "precision": best_precision(scale),
        "matrix_rate": rate(scale, best_precision(scale)),
        "scale": asdict(scale),
        **git_state(),
    }


def table(rows: Iterable[Row]) -> str:
    """Return rows in Markdown, without columns that are empty."""
    rows = list(rows)
    shown = [name for name in COLUMNS if any(row.get(name) is not None for row in rows)]
    cells = [[row["name"], *(_cell(row, name) for name in shown)] for row in rows]
    return markdown_table(Table("", ["", *(COLUMNS[name] for name in shown)], cells))


def _cell(row: Row, name: str) -> str:
    value = row.get(name)
    if value is None:
        return "–"
    if name.endswith("share"):
        return f"{value:.1%}"
    side = name.removesuffix("_ms")
    spread = [row[key] for end in ("fastest", "slowest") if (key := f"{side}_{end}_ms") in row]
    return f"{_number(value)} ({' to '.join(map(_number, spread))})" if spread else _number(value)


def _number(value: float) -> str:
    """Return a number with three digits, or with all digits of its integer part."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object, not tables")
    parser.add_argument("--part", action="append", choices=PARTS, help="one part; may be repeated")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--threads", type=positive, default=Scale.threads, help="CPU threads")
    steps = "steps of a timed pass; a GPU needs hundreds"
    parser.add_argument("--steps", type=positive, default=Scale.steps, help=steps)
    parser.add_argument("--rounds", type=positive, default=Scale.rounds, help="turns of each side")
    workers = "loader processes of the references"
    parser.add_argument("--workers", type=positive, default=Scale.workers, help=workers)
    return parser


if __name__ == "__main__":
    main()
