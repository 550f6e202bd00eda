"""A real MLflow server on loopback, in a process of its own."""

import os
import subprocess
import sys
import time
from pathlib import Path
from urllib.error import URLError

from toy_study import fetch

QUIET = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "MLFLOW_DISABLE_TELEMETRY": "true"}


def start(folder: Path, port: int, database: str | None = None) -> subprocess.Popen[bytes]:
    """Start a server on a database, or on the `mlflow.db` of its folder; return when it answers.

    It has a process group of its own: its workers are processes too.
    """
    database = database or f"sqlite:///{folder / 'mlflow.db'}"
    command = [sys.executable, "-m", "mlflow", "server", "--workers", "1", "--port", str(port)]
    command += ["--backend-store-uri", database]
    command += ["--artifacts-destination", str(folder / "artifacts")]
    with (folder / "server.log").open("w") as log:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=os.environ | QUIET,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    _wait(f"http://127.0.0.1:{port}/health", process, folder / "server.log")
    return process


def _wait(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    last: Exception | None = None
    for _ in range(1200):  # a busy machine starts a server slowly
        try:
            with fetch(address):
                return
        except (URLError, TimeoutError) as error:
            assert process.poll() is None, log.read_text()
            last = error
            time.sleep(0.1)
    raise TimeoutError(f"{address}: {last!r}\n{log.read_text()}")
