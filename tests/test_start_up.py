"""What a process imports before it works: two seconds here are paid by every job of a study."""

import subprocess
import sys

import pytest

LEFT_OUT = {
    "cemlib.cli": {"torch", "mlflow", "pandas", "matplotlib"},
    "cemlib.plan": {"torch", "mlflow", "pandas", "matplotlib"},
    "cemlib.runner": {"torch", "mlflow", "pandas", "matplotlib"},
    "cemlib.report.build": {"torch", "mlflow", "sklearn"},
    "cemlib.training.job": {"torch._dynamo", "mlflow", "pandas", "matplotlib", "sklearn"},
    "cemlib.evaluation.job": {"torch._dynamo", "mlflow", "pandas", "matplotlib", "sklearn"},
    "cemlib.tracking": {"torch", "mlflow", "pandas", "matplotlib"},
}


@pytest.mark.parametrize("module", LEFT_OUT)
def test_a_job_imports_no_more_than_it_needs(module: str) -> None:
    program = f"import sys, {module}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)
    assert not LEFT_OUT[module] & set(done.stdout.decode().split())
