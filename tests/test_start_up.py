"""What a process imports before it works: two seconds here are paid by every job of a study."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HELP = """
from cemlib.cli import main
try:
    main(["train", "--help"])
except SystemExit:
    pass
"""
LOOKING = """
from cemlib.cli import main
main(["list"]), main(["list", "runs"]), main(["show", "no/seed0"])
"""
# Modules that leave out the same share a process: what one of them imports, all would show.
PLAIN = "import cemlib.cli, cemlib.study.rules, cemlib.study.schedule, cemlib.tracking"
BATCHES = "import cemlib.data.augment, cemlib.data.batches, cemlib.data.prepared"
JOBS = """
import cemlib.training.job, cemlib.evaluation.job, cemlib.labelling.job, torch
from cemlib.numerics.optim import SGD, Adam
x = torch.nn.Parameter(torch.ones(2))
x.sum().backward()
SGD([x], momentum=0.9).step(0.1)
Adam([x]).step(0.1)
"""
LEFT_OUT = {
    "help": (HELP, {"torch", "numpy", "pandas", "sklearn", "mlflow", "matplotlib", "pydantic"}),
    "looking": (LOOKING, {"torch", "pandas", "matplotlib", "mlflow", "sklearn"}),
    "plain": (PLAIN, {"torch", "mlflow", "pandas", "matplotlib"}),
    "report": ("import cemlib.report.build", {"torch", "mlflow", "sklearn"}),
    "batches": (BATCHES, {"PIL", "torchvision"}),
    "jobs": (JOBS, {"torch._dynamo", "mlflow", "pandas", "matplotlib", "sklearn"}),
}


@pytest.mark.parametrize("name", LEFT_OUT)
def test_a_process_imports_no_more_than_it_needs(name: str) -> None:
    work, left_out = LEFT_OUT[name]
    program = [sys.executable, "-c", f"{work}\nimport sys; print('#', *sys.modules)"]
    done = subprocess.run(program, check=True, capture_output=True, cwd=ROOT)
    assert not left_out & set(done.stdout.decode().rpartition("#")[2].split())
