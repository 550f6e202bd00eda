"""How long processes take before they work, against importing torch and nothing else."""

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from cemlib.bench.scale import CLASSES, Scale
from cemlib.bench.subject import prepared, study
from cemlib.bench.timing import Timing, Work, alternately, compared, summary, timed
from cemlib.data.prepared import save
from cemlib.files import read_jsonl, write_text
from cemlib.plan import Plan

AGAINST = "python -c 'import torch'"
DRY_RUN = "snakemake -n, CIFAR-10"
JOB = "cemlib train, but for its epoch"
_CONFIG = Path("config/cifar10.yaml")
_COMMAND = re.compile(r"^    (\w+) ", re.MULTILINE)

Command = list[str]


def start_up(scale: Scale) -> dict[str, Any]:
    """Help of every command, a dry run of a large study, and a training job around its epoch.

    The job is `cemlib train` on a few images, less the epoch that it recorded: what remains comes
    before the first step, or writes the results. The dry run needs snakemake, and the workflow's
    files in the working directory; where it does not run, its line is null.
    """
    commands = helps() | {DRY_RUN: dry} if (dry := _dry_run()) else helps()
    repeats = max(1, scale.repeats // 5)
    works = [_work([sys.executable, "-c", "import torch"]), *map(_work, commands.values())]
    reference, *found = alternately(works, repeats, "cpu")
    timings = dict(zip(commands, found, strict=True)) | {JOB: training_job(scale, repeats)}
    lines = {text: compared(timing, reference, AGAINST) for text, timing in timings.items()}
    return {"commands": {DRY_RUN: None} | lines}


def helps() -> dict[str, Command]:
    """The command line that explains the program, and that of each of its commands."""
    cemlib = [sys.executable, "-m", "cemlib"]
    text = subprocess.run([*cemlib, "--help"], check=True, capture_output=True, text=True).stdout
    commands = {f"cemlib {n} --help": [*cemlib, n, "--help"] for n in _COMMAND.findall(text)}
    return {"cemlib --help": [*cemlib, "--help"], **commands}


def training_job(scale: Scale, repeats: int) -> Timing:
    """A job of one short epoch, without it: a network of the scale on images made for it."""
    with TemporaryDirectory() as place:
        plan = Plan(study(scale, results=place, train={"epochs": 1, "batch_size": 2}))
        save(prepared(2, 2 * CLASSES, scale), plan.layout.data)
        config = Path(place) / "study.json"
        write_text(config, plan.study.model_dump_json(by_alias=True))
        chosen = ["--defence", "noise", "--seed", "0", "--device", scale.device]
        command = [sys.executable, "-m", "cemlib", "train", "--config", str(config), *chosen]
        history = plan.layout.run("noise", 0).history
        seconds = [_without_epoch(command, history) for _ in range(repeats)]
    return summary(seconds) | {"peak_memory_mib": None}


def _without_epoch(command: Command, history: Path) -> float:
    whole = timed(_work(command).run, 1, "cpu", warm_up=False)
    epochs = sum(row["seconds"] for row in read_jsonl(history))
    return float(whole["milliseconds"] / 1e3 - epochs)


def _dry_run() -> Command | None:
    """The dry run's command line, if it can be run here."""
    command = [sys.executable, "-m", "snakemake", "-n", "--configfile", str(_CONFIG)]
    if find_spec("snakemake") is None or not (_CONFIG.is_file() and Path("Snakefile").is_file()):
        return None
    return command if subprocess.run(command, capture_output=True).returncode == 0 else None


def _work(command: Command) -> Work:
    return Work(lambda: subprocess.run(command, check=True, capture_output=True))
