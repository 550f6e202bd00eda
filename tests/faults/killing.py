"""Real commands of a small study in a checkout of its own, and ways to end them in the middle.

The checkout is edited in one place: by default its jobs keep a checkpoint after every epoch, and
not every 20 seconds, so that a job of a second or two can be killed in the middle of writing one.
"""

import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import short_study
from checkout import Checkout
from short_study import REFINEMENT

from cemlib.records.checkpoint import Checkpoint

STUDY: dict[str, Any] = short_study.STUDY | {
    "experiment": "tiny",
    "data": short_study.STUDY["data"] | {"train_limit": 200, "test_limit": 60},
    "train": {"epochs": 40, "batch_size": 32, "milestones": [30]},
    "attacks": {
        "decoder": {"epochs": 40, "blocks": 1, "width": 8},
        "gan": {"epochs": 30, "start": "decoder", "critic_width": 4},
        "refinement": REFINEMENT | {"iterations": 10, "batch_size": 3},
        "denoised": REFINEMENT | {"iterations": 3, "batch_size": 10, "denoiser_weight": 1.0},
        "linear": {},
        "mean_image": {},
    },
}
# The job as it is, but with a checkpoint after every epoch.
TRAINING = """
import sys
from functools import partial
from pathlib import Path
from tiny_study import tiny_plan
from cemlib.records.checkpoint import Checkpoint
from cemlib.study.split import train_job
from cemlib.training import job as training

results, epochs = sys.argv[1:]
plan = tiny_plan(Path(results), epochs=int(epochs), select="best_val")
training.Checkpoint = partial(Checkpoint, interval=0.0)
training.run(train_job(plan, "clustering", 0))
"""


def small_study(root: Path, study: dict[str, Any], interval: float = 0.0) -> Checkout:
    """A copy of the repository with the study, and with checkpoints after so many seconds."""
    made = Checkout.create(root)
    source = made.root / "cemlib/records/checkpoint.py"
    text, old = source.read_text(), "interval: float = 20.0"
    assert text.count(old) == 1
    source.write_text(text.replace(old, f"interval: float = {interval}"))
    made.configure(study)
    return made


def start(
    place: Checkout, *words: str, module: str = "cemlib", **options: Any
) -> "subprocess.Popen[str]":
    """Start a command of a checkout."""
    return python("-m", module, *words, cwd=place.root, env=place.environment(), **options)


def start_training(results: Path, epochs: int) -> "subprocess.Popen[str]":
    """Start a training of the tiny study, which keeps a checkpoint after every epoch."""
    return python("-c", TRAINING, str(results), str(epochs))


def python(*words: str, **options: Any) -> "subprocess.Popen[str]":
    """Start Python as a user does, in a process group of its own, as in a terminal."""
    options = {"stderr": subprocess.STDOUT, "text": True, "start_new_session": True} | options
    return subprocess.Popen([sys.executable, *words], stdout=subprocess.PIPE, **options)


def wait_for_line(process: "subprocess.Popen[str]", *parts: str) -> list[str]:
    """Read up to the first line that holds one of some texts."""
    lines = []
    for line in process.stdout:
        lines.append(line)
        if any(part in line for part in parts):
            return lines
    raise AssertionError("".join(lines))


def kill(process: "subprocess.Popen[str]") -> str:
    """SIGKILL, to that one process; returns what it had printed."""
    process.kill()
    return _last_words(process)


def kill_all(process: "subprocess.Popen[str]") -> str:
    """SIGKILL to the process and all that it started."""
    os.killpg(process.pid, signal.SIGKILL)
    return _last_words(process)


def kill_alone(process: "subprocess.Popen[str]") -> str:
    """SIGKILL to the process; then wait until what it started has ended by itself."""
    family = psutil.Process(process.pid).children(recursive=True)
    said = kill(process)
    while any(_is_alive(child) for child in family):
        time.sleep(0.05)
    return said


def _is_alive(process: psutil.Process) -> bool:
    """An orphan that ended may stay as a zombie, where nobody asks for its exit code."""
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _last_words(process: "subprocess.Popen[str]") -> str:
    out, _ = process.communicate()
    assert process.returncode == -signal.SIGKILL, f"it ended before it could be killed: {out}"
    return out


def wait_for_write(process: "subprocess.Popen[str]", checkpoints: Path, more: int) -> None:
    """Wait until the process has begun to write a checkpoint so many times more."""
    seen = halves(checkpoints)
    wanted = len(seen) + more
    while len(seen) < wanted:
        assert process.poll() is None, "it had ended before it could be killed"
        seen |= halves(checkpoints)


def only_checkpoint(results: Path) -> Checkpoint:
    """The checkpoint of the one job that has left any."""
    (folder,) = (results / ".checkpoints").iterdir()
    return Checkpoint(folder)


def carried_out(said: str) -> set[str]:
    """Jobs that the runner said were finished."""
    return set(re.findall(r"^\[\d+/\d+\] (\S+): ", said, re.MULTILINE))


def halves(checkpoints: Path) -> set[Path]:
    """Checkpoints that are being written, or whose writer was killed."""
    walked = os.walk(checkpoints)  # which passes over a folder that is removed meanwhile
    return {Path(top) / name for top, _, names in walked for name in names if name[:7] == ".state."}


def kill_at_random(
    process: "subprocess.Popen[str]", checkpoints: Path, draws: random.Random
) -> None:
    """Kill a job after its first epoch or batch: some of them later, or in a write."""
    wait_for_line(process, " epoch ", " batch ")
    if draws.random() < 0.5:
        wait_for_write(process, checkpoints, draws.randint(1, 3))
    else:
        time.sleep(draws.uniform(0.0, 0.1))
    kill(process)


def stamps(results: Path) -> dict[str, tuple[int, int]]:
    """Inode and time of every record of a finished job: written again, it has others."""
    found = {str(path.relative_to(results)): path.stat() for path in results.rglob("metrics.json")}
    return {name: (stat.st_ino, stat.st_mtime_ns) for name, stat in found.items()}
