"""A PostgreSQL of its own on loopback, from the machine's programs, gone after the tests."""

import importlib.util
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from toy_study import free_port

USER, PASSWORD = "keeper", "not-to-be-shown"
# PostgreSQL refuses to run as root; Debian's package makes this user.
ACCOUNT = "postgres" if os.geteuid() == 0 else None


def programs() -> Path | None:
    """Folder of the newest PostgreSQL here; Debian keeps them off the PATH."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    on_path = shutil.which("initdb")
    newest = found[-1] if found else on_path and Path(on_path)
    return newest.parent if newest else None


def missing() -> str:
    """Return what the tests lack; empty where they can run."""
    if programs() is None:
        return "PostgreSQL is not installed"
    return "" if importlib.util.find_spec("psycopg2") else "psycopg2 is not installed"


@contextmanager
def running() -> Iterator[str]:
    """Yield the address of a database, with its password."""
    folder = Path(tempfile.mkdtemp(prefix="postgres-"))
    try:
        if ACCOUNT is not None:
            shutil.chown(folder, ACCOUNT)
        _create(folder)
        port = free_port()
        with _server(folder, port):
            yield f"postgresql://{USER}:{PASSWORD}@127.0.0.1:{port}/postgres"
    finally:
        shutil.rmtree(folder)


def _command(program: str, *arguments: str) -> list[str]:
    place = programs()
    assert place is not None
    return [str(place / program), *arguments]


def _create(folder: Path) -> None:
    password = folder / "password"
    password.write_text(PASSWORD, encoding="utf-8")
    options = ["--auth=scram-sha-256", f"--username={USER}", f"--pwfile={password}", "--no-sync"]
    command = _command("initdb", f"--pgdata={folder / 'data'}", *options)
    subprocess.run(command, check=True, capture_output=True, cwd=folder, user=ACCOUNT)


@contextmanager
def _server(folder: Path, port: int) -> Iterator[None]:
    settings = ["-D", str(folder / "data"), "-k", str(folder), "-p", str(port)]
    command = _command("postgres", *settings, "-c", "listen_addresses=127.0.0.1")
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, user=ACCOUNT)
    try:
        _wait(port, process, folder / "server.log")
        yield
    finally:
        process.send_signal(signal.SIGINT)  # which ends it without waiting for its clients
        process.wait(30)


def _wait(port: int, process: "subprocess.Popen[bytes]", log: Path) -> None:
    command = _command("pg_isready", "--host=127.0.0.1", f"--port={port}", "--quiet")
    for _ in range(300):
        if subprocess.run(command, check=False).returncode == 0:
            return
        assert process.poll() is None, log.read_text()
        time.sleep(0.2)
    raise TimeoutError(log.read_text())
