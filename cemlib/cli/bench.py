"""`cemlib bench`: its options, and what it prints."""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cemlib.bench.scale import PARTS, Scale
from cemlib.cli.options import Commands, device_of, plan_of, positive

if TYPE_CHECKING:
    from cemlib.config import Study

AMOUNTS = {
    "samples": "training images of the study: rows of an epoch-end fit",
    "steps": "steps of a timed pass of training or attack; a graphics card wants hundreds",
    "repeats": "timed calls of whatever is shorter",
    "threads": "threads on the CPU, of ours and of the references",
    "workers": "loader processes of the references",
}
DRAWN = "scaling"


def add_bench(commands: Commands) -> None:
    """Add the subcommand to the command line."""
    text = "measure what this package costs, beside a reference and the arithmetic floor"
    parser = commands.add_parser("bench", help=text, description=f"{text[0].upper()}{text[1:]}.")
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="a study whose network and batch size are measured, on colour images unless it says"
        " data.channels (default: the published VGG11 split)",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object, not tables")
    parser.add_argument(
        "--part",
        action="append",
        choices=PARTS,
        metavar="NAME",
        help=f"only this part; may be repeated (parts: {', '.join(PARTS)})",
    )
    parser.add_argument(
        "--figure",
        type=Path,
        metavar="FILE",
        help=f"draw the part {DRAWN}, as .png or .svg",
    )
    for option, meaning in AMOUNTS.items():
        parser.add_argument(
            f"--{option}",
            type=positive,
            default=getattr(Scale, option),
            metavar="N",
            help=f"{meaning} (default: %(default)s)",
        )
    parser.add_argument(
        "--processes",
        type=positive,
        metavar="N",
        help="trainings that are measured at once (default: one a core)",
    )
    parser.add_argument(
        "--device", choices=("auto", "cpu", "cuda"), default="cpu", help="default: %(default)s"
    )
    parser.set_defaults(command=run_bench)


def run_bench(options: argparse.Namespace) -> Iterator[str]:
    """Measure; yield the tables and the path of a figure, or one JSON text.

    Raises:
        ConfigError: if the study is faulty, or the figure cannot be drawn.
    """
    parts = options.part or PARTS
    _check_figure(options.figure, parts)
    import json

    from cemlib.bench.run import bench
    from cemlib.bench.text import table

    figures = bench(_scale(options), parts)
    yield json.dumps(figures, indent=2) if options.json else table(figures)
    if options.figure is not None:
        from cemlib.bench.figure import draw

        draw(figures[DRAWN], options.figure)
        if not options.json:
            yield str(options.figure)


def _check_figure(path: Path | None, parts: Sequence[str]) -> None:
    """Refuse before minutes are spent."""
    from cemlib.config import ConfigError

    if path is not None and path.suffix not in (".png", ".svg"):
        raise ConfigError(f"--figure {path}: ends in {path.suffix!r}; name a .png or .svg file")
    if path is not None and DRAWN not in parts:
        raise ConfigError(f"--figure draws the part {DRAWN}; add --part {DRAWN}")


def _scale(options: argparse.Namespace) -> Scale:
    amounts = {name: getattr(options, name) for name in (*AMOUNTS, "processes")}
    network = {} if options.config is None else _network(plan_of(options).study)
    return Scale(**amounts, **network, device=device_of(options).type)


def _network(study: "Study") -> dict[str, Any]:
    """What of a study decides its costs."""
    return {
        "network": study.model.name,
        "cut": study.model.cut,
        "image_size": study.data.image_size,
        "channels": study.data.channels or Scale.channels,
        "batch": study.train.batch_size,
    }
