"""Jobs of the tiny study that die: by SIGKILL in a process of their own, or in this one."""

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from cemlib.records.checkpoint import Checkpoint

HERE = Path(__file__).parent
# The job as it is, but with a checkpoint after every epoch instead of every 20 seconds.
VICTIM = """
import sys
from functools import partial
from pathlib import Path
from tiny_study import CPU, tiny_plan
from cemlib.records.checkpoint import Checkpoint
from cemlib.study.split import train_job
from cemlib.training import job as training

results, defence, epochs, select = sys.argv[1:]
plan = tiny_plan(Path(results), epochs=int(epochs), select=select)
training.Checkpoint = partial(Checkpoint, interval=0.0)
training.run(train_job(plan, defence, 0, "cpu"))
"""


def start_victim(*arguments: str) -> "subprocess.Popen[str]":
    """Start the job in a process of its own."""
    paths = (str(HERE), str(HERE.parents[1]), os.environ.get("PYTHONPATH", ""))
    return subprocess.Popen(
        [sys.executable, "-c", VICTIM, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"},
    )


@dataclass
class Dying(Checkpoint):
    """A checkpoint whose job is interrupted after some of its writes."""

    writes_left: int = 2

    def save(self, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> None:
        super().save(tensors, state)
        self.writes_left -= 1
        if self.writes_left == 0:
            raise KeyboardInterrupt


def first_epoch_shown(text: str) -> int:
    """Epoch of the first line that the progress printed."""
    return int(text.split(" epoch ")[1].split("/")[0])
