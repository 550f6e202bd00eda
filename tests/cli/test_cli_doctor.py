"""`cemlib doctor`: every line is a finding with what to do, and the exit code tells."""

import os
import shutil
import subprocess
import sys
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torchvision
from finished_study import Finished
from image_folders import write_class

from cemlib.cli.before import _findings
from cemlib.cli.checks import places
from cemlib.config import parse
from cemlib.models import MODELS, build
from cemlib.study import requirements as checks
from cemlib.study.plan import Plan
from cemlib.study.requirements import DOWNLOADS, OK, PROBLEM, WARNING, Finding
from cemlib.surrogates import SURROGATES

ROOT = Path(__file__).parents[2]
ABSENT = "sqlite:///nowhere.db"


def plan(folder: Path, model: object = None, **data: object) -> Plan:
    raw = {"experiment": "e", "results": str(folder / "results"), "data": data}
    raw |= {"model": model} if model else {}
    return Plan(parse(raw | {"defences": {"noise": {}}, "attacks": {"linear": {}}}))


def about(subject: str, findings: Iterator[Finding]) -> Finding:
    (found,) = [finding for finding in findings if finding.subject == subject]
    return found


def test_a_sound_machine_has_no_problem(finished: Finished) -> None:
    lines = finished.says("doctor")[0].splitlines()
    assert {line.split()[0] for line in lines} <= {"ok", "warning"}
    found = {line[9:26].strip(): line[26:] for line in lines}
    assert found["torch"] == torch.__version__.partition("+")[0]
    assert found["torchvision"].startswith(torchvision.__version__.partition("+")[0])
    assert found["data digits"] == f"prepared already: {finished.results / 'data'}"
    assert {"python", "cemlib", "bfloat16", "results"} <= set(found)


def test_a_change_without_a_study_is_a_problem() -> None:
    found = about("configuration", _findings(Namespace(config=None, set=["seeds=[0]"], uri=ABSENT)))
    assert found.level == PROBLEM
    assert found.advice == "add --config"


def test_a_library_that_cannot_be_imported_is_a_problem(tmp_path: Path) -> None:
    """Torchvision cannot be imported without torch, either."""
    (tmp_path / "torch.py").write_text("raise RuntimeError('operator nms is missing')")
    done = subprocess.run(
        [sys.executable, "-m", "cemlib", "doctor"],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])},
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("problem")]
    assert [line.split()[1] for line in lines] == ["torch", "torchvision"]
    assert all("RuntimeError: operator nms is missing" in line for line in lines)
    assert (done.returncode, done.stderr) == (1, "error: 2 problems found\n")


def test_faults_of_a_configuration_are_problems_beside_the_rest(spoilt: Finished) -> None:
    spoilt.configure(model={"name": "smal"}, seeds=[])
    out, errors = spoilt.says("doctor", code=1)
    told = [line for line in out.splitlines() if line.startswith("problem")]
    assert len(told) == 2
    assert any("did you mean 'small'?" in line for line in told)
    assert "MLflow store" in out.splitlines()[-1]
    assert errors == "error: 2 problems found\n"


LAST_CUTS = {"small": 5, "vgg11": 12, "resnet20": 9}


@pytest.mark.parametrize("name", MODELS)
def test_what_a_network_takes_is_what_is_told(name: str, tmp_path: Path) -> None:
    """The last cut and the next, and sizes around one that fits; the network refuses the others."""
    last = LAST_CUTS[name]
    for cut, size in [(last, 32), (last + 1, 32), *((1, size) for size in range(8, 36))]:
        found = plan(tmp_path, {"name": name, "cut": cut}, source="digits", image_size=size)
        told = [one.subject for one in checks.requirements(found) if one.level == PROBLEM]
        try:
            build(name, num_classes=2, image_size=size, cut=cut)
        except ValueError as error:
            assert cut != last
            key = str(error).partition(":")[0]
            assert told == [{"cut": "model.cut", "image_size": "data.image_size"}[key]]
        else:
            assert told == [], (cut, size)


@pytest.mark.parametrize(
    ("sections", "expected"),
    [
        ({"defences": {"same": {"model": {"bottleneck": 8}}}}, ["model.cut"]),
        ({"defences": {"wide": {"model": {"client_width": 2.0}}}}, ["model.cut"]),
        (
            {"sweeps": {"s": {"over": {"cut": [7, 8], "bottleneck": [4, 8]}}}},
            ["model.cut", "sweeps.s.over.cut"],
        ),
        ({"data": {"image_size": 30}}, ["model.cut", "data.image_size"]),
        (
            {"attacks": {"perceptual": {"pretrained": "absent.pth"}}},
            ["model.cut", "attacks.perceptual.pretrained"],
        ),
    ],
)
def test_each_problem_is_told_once_where_it_was_written(
    tmp_path: Path, sections: dict[str, Any], expected: list[str]
) -> None:
    found = plan(tmp_path, {"name": "small", "cut": 7}, source="digits", image_size=16)
    raw = found.study.plain()
    for name, section in sections.items():
        raw[name] = raw[name] | section
    found = replace(found, study=parse(raw))
    told = [one.subject for one in checks.requirements(found) if one.level == PROBLEM]
    assert told == expected


def test_when_surrogates_act_is_what_is_told() -> None:
    assert checks.FIRST_EPOCHS.keys() <= SURROGATES.keys()
    told = {name: checks.FIRST_EPOCHS.get(name, 1) for name in SURROGATES}
    assert {name: kind.start_epoch for name, kind in SURROGATES.items()} == told


def test_what_stops_the_runner_is_a_problem_here(spoilt: Finished) -> None:
    """The same check, before any job; data of other settings that lie ready are no excuse."""
    sweep = {"surrogate": "gated", "over": {"lambda": [1, 2]}}
    spoilt.configure(
        model={"name": "small", "cut": 99},
        sweeps={"swept": sweep},
        data={"source": "folder", "root": "gone", "image_size": 17},
    )
    out, errors = spoilt.says("run", code=2)
    told = [line.removeprefix("error: ") for line in errors.splitlines()]
    assert [line.partition(":")[0] for line in told] == [
        "data folder",
        "model.cut",
        "data.image_size",
        "train.epochs",
    ]
    assert "gone: no such folder" in told[0]
    assert told[-1] == (
        "train.epochs: 2, but sweeps.swept.surrogate acts from epoch 6 on; set it to 6 or more"
    )
    assert out == ""
    lines = spoilt.says("doctor", code=1)[0].splitlines()
    found = [line.split(maxsplit=1)[1] for line in lines if line.startswith("problem")]
    assert [" ".join(line.split()) for line in found] == [line.replace(":", "", 1) for line in told]


def test_what_is_no_store_is_a_line(tmp_path: Path) -> None:
    """Addresses that are none are in `tracking/test_mlflow_away.py`."""
    (tmp_path / "mlflow.db").write_bytes(b"no database at all" * 100)
    found = about("MLflow store", places(f"sqlite:///{tmp_path / 'mlflow.db'}"))
    assert found.level == WARNING
    assert "not a usable SQLite file" in found.found


def test_images_of_a_folder_are_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CEMLIB_DATA", raising=False)

    def found(**data: object) -> Finding:
        return about("data folder", places(ABSENT, plan(tmp_path, source="folder", **data)))

    faces = tmp_path / "faces"
    assert "needs a place" in found().found
    monkeypatch.setenv("CEMLIB_DATA", "")  # as if it were not set, for `cemlib prepare` too
    assert "needs a place" in found().found
    assert "no such folder" in found(root=str(faces)).found
    (faces / "ann").mkdir(parents=True)
    assert "two or more classes, found ann" in found(root=str(faces)).found
    (faces / "bob").mkdir()
    assert found(root=str(faces)) == Finding(
        PROBLEM,
        "data folder",
        f"{faces / 'ann'}: 0 images in this class, 5 or more are needed",
        "add images, remove the class or lower data.min_per_class",
    )
    for name in ("ann", "bob"):
        write_class(faces / name, 5, seed=0)
    assert found(root=str(faces)) == Finding(OK, "data folder", f"2 classes in {faces}")
    monkeypatch.setenv("CEMLIB_DATA", str(faces))
    assert found().level == OK
    (faces / "train").mkdir()
    assert found().found == f"{faces}: found train/ but no test/"
    for name in ("train/ann", "train/bob", "test/ann", "test/eve"):
        write_class(faces / name, 5, seed=0)
    assert "only in train: ['bob'], only in test: ['eve']" in found().found
    (faces / "test" / "eve").rename(faces / "test" / "bob")
    assert found() == Finding(OK, "data folder", f"2 classes in {faces}")


def test_downloads_lie_where_torchvision_puts_them(tmp_path: Path) -> None:
    sets = torchvision.datasets
    assert DOWNLOADS["cifar10"] == sets.CIFAR10.base_folder
    assert DOWNLOADS["cifar100"] == sets.CIFAR100.base_folder
    assert DOWNLOADS["svhn"] == sets.SVHN.split_list["train"][1]
    for name, kind in {"mnist": sets.MNIST, "fashion_mnist": sets.FashionMNIST}.items():
        held = kind.__new__(kind)
        held.root = tmp_path
        assert Path(held.raw_folder) == tmp_path / DOWNLOADS[name]


def test_a_download_that_is_missing_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def found(folder: Path) -> str:
        here = plan(tmp_path, source="svhn", root=str(folder))
        return about("data svhn", places(ABSENT, here)).level

    assert found(tmp_path) == WARNING
    (tmp_path / DOWNLOADS["svhn"]).touch()
    assert found(tmp_path) == OK
    (tmp_path / "train").mkdir()  # without test/ no image folder: `cemlib prepare` ignores it
    assert found(tmp_path) == OK
    assert found(tmp_path / "gone") == PROBLEM
    monkeypatch.delitem(DOWNLOADS, "svhn")  # as of a source that somebody added
    assert found(tmp_path / "gone") == OK  # only that source knows what it reads


def test_the_disk_of_the_results_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = about("results", places(ABSENT, plan(tmp_path, source="digits"))).found
    free = float(told.split(": ")[1].split()[0]) * 2**30
    assert free == pytest.approx(shutil.disk_usage(tmp_path).free, rel=0.05)
    (tmp_path / "results").write_text("a file where a folder should be")
    monkeypatch.setenv("HOME", str(tmp_path))
    for folder in (tmp_path, Path("~")):
        found = about("results", places(ABSENT, plan(folder, source="digits")))
        assert found.level == PROBLEM
