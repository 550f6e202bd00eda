"""The command line, run as a user runs it."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from finished_study import Finished

from cemlib import __version__
from cemlib.cli import main

DEFENCES: dict[str, Any] = {"noise": {}, "clustering": {"surrogate": "clustering"}}


def configured(folder: Path, **changes: Any) -> Finished:
    study = Finished(folder)
    study.configure(**{"seeds": [0], "defences": DEFENCES} | changes)
    return study


def refusal(study: Finished, *command: str) -> str:
    """The single line that a refused command prints, on standard error."""
    out, errors = study.says(*command, code=2)
    (line,) = errors.splitlines()
    assert (out, line[:7]) == ("", "error: ")
    return line


def test_the_version_is_the_packages() -> None:
    command = [sys.executable, "-m", "cemlib", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"cemlib {__version__}"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        *((call, "") for call in ("", "trane", "train --seed x", "prepare -q")),
        ("run --slots 0", "'0' is not a positive whole number"),
        ("match --slots 1.5", "'1.5' is not a positive whole number"),
        ("match --accuracy 101", "'101' is not a number above 0 and up to 100"),
        ("match --accuracy 0.6", "'0.6' is a fraction; give the accuracy in %"),
    ],
)
def test_a_wrong_call_is_refused_with_the_usage(
    call: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match=r"^2$"):
        main(call.split())
    told = capsys.readouterr().err
    assert told.startswith("usage: cemlib")
    assert message in told


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["train", "--defence", "nois"], ["no defence 'nois'", "did you mean 'noise'?"]),
        (["attack", "--defence", "clusterin"], ["'clusterin'", "did you mean 'clustering'?"]),
        (
            ["report", "--defence", "noise", "--only", "figures"],
            ["only tables are made for one defence"],
        ),
        (["report", "--defence", "zzz"], ["no defence 'zzz'", "noise, clustering"]),
        (["attack", "--attack", "liner"], ["no attack 'liner'", "did you mean 'linear'?"]),
        (["train", "--seed", "7"], ["no seed 7 in this study (it has 0)"]),
        (["train"], ["data.json: no such file", "run the job prepare first"]),
    ],
)
def test_a_users_mistake_is_one_line(
    tmp_path: Path, arguments: list[str], parts: list[str]
) -> None:
    line = refusal(configured(tmp_path), *arguments)
    assert all(part in line for part in parts)


def test_what_cannot_be_built_is_named_by_its_section(tmp_path: Path) -> None:
    study = configured(tmp_path, model={"name": "small", "cut": 9})
    study.says("prepare")
    assert "model: cut: must lie between 1 and 5, found 9" in refusal(study, "train")


def test_what_the_system_refuses_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "results").write_text("a file where a folder should be")
    assert str(tmp_path / "results") in refusal(configured(tmp_path), "prepare")
