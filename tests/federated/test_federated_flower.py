"""Flower's real processes end with the weights of the rounds in one process, or behind the mask."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from operator import itemgetter
from pathlib import Path

import pytest
import torch
from ports import free_port
from short_study import configure
from tiny_federation import tiny

from cemlib.cli import main
from cemlib.config.load import load_any as load
from cemlib.federated.job import read_data
from cemlib.federated.rounds import Federation
from cemlib.records.files import load_tensors, read_jsonl
from cemlib.study.federated import train_job
from cemlib.study.plan import Plan

pytest.importorskip("flwr", reason="in a lock of its own: requirements-flower.lock")
ROOT = Path(__file__).parents[2]
APP = ROOT / "workflow/flower"
TIMEOUT = 540.0


def program(name: str) -> str:
    found = shutil.which(name, path=str(Path(sys.executable).parent))
    assert found, f"flwr is installed without {name}"
    return found


@contextmanager
def running(folder: Path, name: str, *arguments: str) -> Iterator[None]:
    """A program of Flower's in a session of its own, ended with all that it started."""
    with (folder / f"{len(list(folder.iterdir()))}.log").open("wb") as log:
        process = subprocess.Popen(
            [program(name), "--insecure", *arguments],
            stdout=log,
            stderr=log,
            env=environment(folder),
            start_new_session=True,
        )
    try:
        yield
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def environment(folder: Path) -> dict[str, str]:
    place = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    quiet = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_HOME": str(folder), "PATH": place}
    return os.environ | quiet | {"PYTHONPATH": str(ROOT)}


@contextmanager
def federation(home: Path, *clients: int) -> Iterator[Path]:
    """A link and the nodes of some clients, with their files in a folder."""
    home.mkdir()
    port = free_port()
    address = f"127.0.0.1:{port}"
    links = ["[superlink]", 'default = "here"', "[superlink.here]", f'address = "{address}"']
    (home / "config.toml").write_text("\n".join([*links, "insecure = true"]))
    link = ("--disable-runtime-dependency-installation", "--port", str(port))
    with ExitStack() as stack:
        stack.enter_context(running(home, "flower-superlink", *link))
        for i in clients:
            node = ("--superlink", address, "--port", str(free_port()))
            number = ("--node-config", f"partition-id={i}")
            stack.enter_context(running(home, "flower-supernode", *node, *number))
        yield home


def test_processes_agree_with_one_process(tmp_path: Path) -> None:
    changes = {"clients": {"number": 2, "participation": 1.0}, "train": {"rounds": 2}}
    option, config = configure(tmp_path, tiny(**changes))
    for only in ("prepare", "gans", "train/both"):
        assert main(["run", option, config, "--only", only]) == 0
    plan = Plan(load(Path(config)))
    out = plan.layout.root / "flower/both"
    with federation(tmp_path / "home", 0, 1) as home:
        submit(home, APP, f'config="{config}" variant="both" seed=0')
        wait_for(out / "seed0.safetensors")
    run = plan.layout.run("both", 0)
    weights = map(load_tensors, (out / "seed0.safetensors", run.model))
    torch.testing.assert_close(*weights, rtol=1e-4, atol=1e-6)
    counts = itemgetter("asked", "dropped", "excluded", "bytes_up")
    rows, others = (read_jsonl(file) for file in (out / "seed0.jsonl", run.history))
    assert [*map(counts, rows)] == [*map(counts, others)]


def test_a_client_that_sends_other_tensors_is_excluded(tmp_path: Path) -> None:
    """Client 1's tensors lack their first row; the mean is the change of client 0 alone."""
    app = shutil.copytree(APP, tmp_path / "app", ignore=shutil.ignore_patterns("__pycache__"))
    source = (app / "federated_app.py").read_text()
    assert source.count("tensor[0] for") == 1
    changed = source.replace("tensor[0] for", "tensor[0][_client(context) :] for")
    (app / "federated_app.py").write_text(changed)
    study = tiny(clients={"number": 2, "participation": 1.0}, train={"rounds": 1})
    _, config = configure(tmp_path, study)
    assert main(["run", "--config", config, "--only", "prepare"]) == 0
    plan = Plan(load(Path(config)))
    out = plan.layout.root / "flower/none"
    with federation(tmp_path / "home", 0, 1) as home:
        submit(home, app, f'config="{config}" variant="none" seed=0')
        wait_for(out / "seed0.safetensors")
    (row,) = read_jsonl(out / "seed0.jsonl")
    assert (row["asked"], row["dropped"], row["excluded"]) == (2, 0, 1)
    data = read_data(train_job(plan, "none", 0))
    alone = Federation(plan.study, plan.study.variants["none"], data, None, 0)
    answer, _ = alone.answers([0], 1)
    found = load_tensors(out / "seed0.safetensors")
    for name, start in alone.weights.items():
        torch.testing.assert_close(found[name], start + answer[name][0], rtol=1e-4, atol=1e-6)


def test_clients_with_wrong_numbers_are_refused(tmp_path: Path) -> None:
    _, config = configure(tmp_path, tiny(clients={"number": 2, "participation": 1.0}))
    assert main(["run", "--config", config, "--only", "prepare"]) == 0
    with federation(tmp_path / "home", 1, 1) as home:
        run = submit(home, APP, f'config="{config}" variant="none" seed=0')
        deadline, told = time.monotonic() + TIMEOUT, ""
        while "expected partition-id=0 to 1, each once, found [1, 1]" not in told:
            assert time.monotonic() < deadline, told
            time.sleep(2)
            told = flower(home, "log", run, "here", "--show").stdout


def submit(home: Path, app: Path, settings: str) -> str:
    """Hand the app in, as soon as the link is there, and return the number of its run."""
    for _ in range(10):
        done = flower(home, "run", str(app), "here", "--run-config", settings)
        if started := re.search(r"Successfully started run (\d+)", done.stdout):
            return started[1]
        time.sleep(3)
    pytest.fail(done.stdout + done.stderr)


def flower(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [program("flwr"), *arguments],
        env=environment(home),
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT,
    )


def wait_for(file: Path) -> None:
    deadline = time.monotonic() + TIMEOUT
    while not file.is_file():
        assert time.monotonic() < deadline, f"{file} was not written"
        time.sleep(0.5)
