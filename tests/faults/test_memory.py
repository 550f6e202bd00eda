"""Memory does not grow with the number of trainings and attacks in one process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cemlib.study.environment import OF_JOBS

SOAK = Path(__file__).with_name("soak.py")
MIB = 2**20
ALLOWED = 2 * MIB  # of growth; measured were .03 per five runs and attacks


@pytest.mark.parametrize(
    ("warm", "more", "attacks"),
    [(12, 10, ["linear"]), pytest.param(50, 150, ["decoder", "linear"], marks=pytest.mark.slow)],
)
def test_runs_in_one_process_do_not_grow(
    tmp_path: Path, warm: int, more: int, attacks: list[str]
) -> None:
    """Like a slot of `cemlib run`, which trains and attacks one run after the other."""
    command = [sys.executable, str(SOAK), str(tmp_path), str(warm), str(more), *attacks]
    environment = os.environ | OF_JOBS
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    grown = int(done.stdout)
    assert grown < ALLOWED, f"{grown / MIB:.1f} MiB more"
