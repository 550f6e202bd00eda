"""What a process imports before it works: two seconds here are paid by every job of a study."""

import subprocess
import sys

import pytest

PLAIN = ("cemlib.cli", "cemlib.study.rules", "cemlib.study.schedule", "cemlib.tracking")
JOBS = ("cemlib.training.job", "cemlib.evaluation.job", "cemlib.labelling.job")
# Modules that leave out the same share a process: what one of them imports, all would show.
LEFT_OUT = {
    PLAIN: {"torch", "mlflow", "pandas", "matplotlib"},
    ("cemlib.report.build",): {"torch", "mlflow", "sklearn"},
    ("cemlib.data.augment", "cemlib.data.batches", "cemlib.data.prepared"): {"PIL", "torchvision"},
    JOBS: {"torch._dynamo", "mlflow", "pandas", "matplotlib", "sklearn"},
}


@pytest.mark.parametrize("modules", LEFT_OUT)
def test_a_job_imports_no_more_than_it_needs(modules: tuple[str, ...]) -> None:
    program = f"import sys, {', '.join(modules)}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)
    assert not LEFT_OUT[modules] & set(done.stdout.decode().split())
