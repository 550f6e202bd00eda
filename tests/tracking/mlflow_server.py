"""A real MLflow server on loopback, in a process of its own."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import ProxyHandler, build_opener

QUIET = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "MLFLOW_DISABLE_TELEMETRY": "true"}


@contextmanager
def running(folder: Path, port: int) -> Iterator[int]:
    """A server on the `mlflow.db` of a folder, once it answers.

    Yields its process group, to which its workers belong. No process is left at the end, whether
    the server started, ran on or was killed.
    """
    process = _start(folder, port)
    try:
        _wait(f"http://127.0.0.1:{port}/health", process, folder / "server.log")
        yield process.pid
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
        process.wait(30)


def _start(folder: Path, port: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "mlflow", "server", "--workers", "1", "--port", str(port)]
    command += ["--backend-store-uri", f"sqlite:///{folder / 'mlflow.db'}"]
    command += ["--artifacts-destination", str(folder / "artifacts")]
    with (folder / "server.log").open("w") as log:
        return subprocess.Popen(
            command,
            cwd=folder,
            env=os.environ | QUIET,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def _wait(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    last: Exception | None = None
    direct = build_opener(ProxyHandler({}))  # past any proxy that this process was told to use
    for _ in range(1200):  # a busy machine starts a server slowly
        try:
            with direct.open(address, timeout=20):
                return
        except (URLError, TimeoutError) as error:
            assert process.poll() is None, log.read_text()
            last = error
            time.sleep(0.1)
    raise TimeoutError(f"{address}: {last!r}\n{log.read_text()}")
