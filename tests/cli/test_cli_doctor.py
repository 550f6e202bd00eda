"""`cemlib doctor`: every line is a finding with what to do, and the exit code tells."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import torchvision
from finished_study import Finished

from cemlib.cli import main
from cemlib.config import parse
from cemlib.study.machine import Finding, Level, available_memory
from cemlib.study.places import DOWNLOADS, places
from cemlib.study.plan import Plan

ROOT = Path(__file__).parents[2]
ABSENT = "sqlite:///nowhere.db"


def plan(folder: Path, **data: object) -> Plan:
    raw = {"experiment": "e", "results": str(folder / "results"), "data": data}
    return Plan(parse(raw | {"defences": {"noise": {}}, "attacks": {"linear": {}}}))


def about(subject: str, findings: Iterator[Finding]) -> Finding:
    (found,) = [finding for finding in findings if finding.subject == subject]
    return found


def store(uri: str) -> Finding:
    return about("MLflow store", places(uri))


def test_a_sound_machine_has_no_problem(
    finished: Finished, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", "--config", finished.config]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert {line.split()[0] for line in lines} <= {"ok", "warning"}
    found = {line[9:26].strip(): line[26:] for line in lines}
    assert found["torch"] == torch.__version__.partition("+")[0]
    assert found["torchvision"].startswith(torchvision.__version__.partition("+")[0])
    assert found["data digits"] == f"prepared already: {finished.results / 'data'}"
    assert {"python", "cemlib", "threads", "memory", "bfloat16", "results"} <= set(found)


def test_a_library_that_cannot_be_imported_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "torchvision.py").write_text("raise RuntimeError('operator nms is missing')")
    done = subprocess.run(
        [sys.executable, "-m", "cemlib", "doctor"],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])},
    )
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("problem")]
    assert "torchvision" in line
    assert "RuntimeError: operator nms is missing" in line
    assert (done.returncode, done.stderr) == (1, "error: 1 problem found\n")


def test_faults_of_a_configuration_are_problems_beside_the_rest(
    spoilt: Finished, capsys: pytest.CaptureFixture[str]
) -> None:
    spoilt.configure(model={"name": "smal"}, seeds=[])
    assert main(["doctor", "--config", spoilt.config]) == 1
    captured = capsys.readouterr()
    told = [line for line in captured.out.splitlines() if line.startswith("problem")]
    assert len(told) == 2
    assert any("did you mean 'small'?" in line for line in told)
    assert "MLflow store" in captured.out.splitlines()[-1]
    assert captured.err == "error: 2 problems found\n"


def test_a_file_that_is_no_store_is_told(tmp_path: Path) -> None:
    (tmp_path / "mlflow.db").write_bytes(b"no database at all" * 100)
    found = store(f"sqlite:///{tmp_path / 'mlflow.db'}")
    assert found.level is Level.WARNING
    assert "not a usable SQLite file" in found.found


@pytest.mark.parametrize(
    ("uri", "advice"),
    [
        ("nonsense", "give sqlite:///FILE"),
        ("http://[broken", "mend it"),
        ("postgresql://me:secret@host/db", "give sqlite:///FILE"),
    ],
)
def test_an_address_of_no_store_is_a_line(uri: str, advice: str) -> None:
    found = store(uri)
    assert found.level is Level.WARNING
    assert advice in found.advice
    assert "secret" not in found.found


def test_images_of_a_folder_are_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CEMLIB_DATA", raising=False)

    def found(**data: object) -> Finding:
        return about("data folder", places(ABSENT, plan(tmp_path, source="folder", **data)))

    faces = tmp_path / "faces"
    assert found().level is Level.PROBLEM
    assert "no such folder" in found(root=str(faces)).found
    (faces / "ann").mkdir(parents=True)
    assert "1 class folders" in found(root=str(faces)).found
    (faces / "bob").mkdir()
    assert found(root=str(faces)) == Finding(Level.OK, "data folder", f"2 class folders in {faces}")
    monkeypatch.setenv("CEMLIB_DATA", str(faces))
    assert found().level is Level.OK


def test_downloads_lie_where_torchvision_puts_them(tmp_path: Path) -> None:
    sets = torchvision.datasets
    assert DOWNLOADS["cifar10"] == sets.CIFAR10.base_folder
    assert DOWNLOADS["cifar100"] == sets.CIFAR100.base_folder
    assert DOWNLOADS["svhn"] == sets.SVHN.split_list["train"][1]
    for name, kind in {"mnist": sets.MNIST, "fashion_mnist": sets.FashionMNIST}.items():
        held = kind.__new__(kind)
        held.root = tmp_path
        assert Path(held.raw_folder) == tmp_path / DOWNLOADS[name]


def test_a_download_that_is_missing_is_a_warning(tmp_path: Path) -> None:
    here = plan(tmp_path, source="svhn", root=str(tmp_path))
    assert about("data svhn", places(ABSENT, here)).level is Level.WARNING
    (tmp_path / DOWNLOADS["svhn"]).touch()
    assert about("data svhn", places(ABSENT, here)).level is Level.OK


def test_a_source_that_torchvision_does_not_know_is_no_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(DOWNLOADS, "svhn")  # as of a source that somebody added
    here = plan(tmp_path, source="svhn", root=str(tmp_path))
    assert about("data svhn", places(ABSENT, here)).level is Level.OK
    gone = plan(tmp_path, source="svhn", root=str(tmp_path / "gone"))
    assert about("data svhn", places(ABSENT, gone)).level is Level.PROBLEM


def test_the_disk_of_the_results_is_looked_at(tmp_path: Path) -> None:
    told = about("results", places(ABSENT, plan(tmp_path, source="digits"))).found
    free = float(told.split(": ")[1].split()[0]) * 2**30
    assert free == pytest.approx(shutil.disk_usage(tmp_path).free, rel=0.05)
    (tmp_path / "results").write_text("a file where a folder should be")
    found = about("results", places(ABSENT, plan(tmp_path, source="digits")))
    assert found.level is Level.PROBLEM


def test_memory_is_the_smaller_of_machine_and_control_group(tmp_path: Path) -> None:
    assert available_memory(tmp_path, tmp_path) is None
    (tmp_path / "meminfo").write_text("MemTotal: 9000 kB\nMemAvailable:    4000 kB\n")
    assert available_memory(tmp_path, tmp_path) == 4000 * 1024
    (tmp_path / "memory.current").write_text("1000000\n")
    (tmp_path / "memory.max").write_text("max\n")
    assert available_memory(tmp_path, tmp_path) == 4000 * 1024
    (tmp_path / "memory.max").write_text("3000000\n")
    assert available_memory(tmp_path, tmp_path) == 2_000_000
