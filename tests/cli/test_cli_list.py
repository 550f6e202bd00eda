"""`cemlib list`: names, their meaning, and how far the runs of a study are."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from finished_study import Finished

from cemlib import attacks, data, models, surrogates
from cemlib.cli import main
from cemlib.cli.results import KINDS
from cemlib.defences import channels, penalties
from cemlib.records.files import read_json
from cemlib.records.provenance import PACKAGE
from cemlib.records.seal import write_sealed
from cemlib.study.catalogue import WRITTEN_AS, entries

ROOT = Path(__file__).parents[2]
ROOMS: dict[str, dict[str, Any]] = {
    "surrogates": surrogates.SURROGATES,
    "channels": channels.CHANNELS,
    "penalties": penalties.PENALTIES,
    "models": models.MODELS,
    "attacks": attacks.ATTACKS,
    "data": data.SOURCES,
}


@pytest.mark.parametrize("room", ROOMS)
def test_every_member_of_a_room_is_listed_with_the_file_it_comes_from(room: str) -> None:
    found = {name: told for name, *told in entries(room)}
    assert list(found) == list(ROOMS[room])
    for name, member in ROOMS[room].items():
        module = sys.modules[member.__module__].__file__
        source, meaning = found[name]
        assert PACKAGE.parent / source == Path(str(module))
        assert meaning


def test_the_command_line_offers_what_the_catalogue_has() -> None:
    assert tuple(WRITTEN_AS) == KINDS
    assert set(ROOMS) | {"defences"} == set(KINDS)


def test_a_name_and_its_meaning_stand_on_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    (gmm,) = [line for line in lines if line.startswith("  gmm ")]
    assert gmm.endswith("by EM: the bound of Xia et al. on the mutual information.")
    assert "cemlib/surrogates/gmm.py" in gmm


def listed(study: Finished) -> list[list[str]]:
    """The words of each row of `cemlib list runs`."""
    return [line.split() for line in study.says("list", "runs")[0].splitlines()[2:]]


def test_runs_are_finished_running_absent_or_damaged(spoilt: Finished) -> None:
    (spoilt.run("noise/seed1") / "metrics.json").unlink()
    (spoilt.run("strong/seed0") / "metrics.json").write_text("{")
    for left in spoilt.run("strong/seed1").glob("*.*"):
        left.unlink()
    (spoilt.run("noise/seed0") / "attacks/linear-train_data/metrics.json").unlink()
    rows = listed(spoilt)
    found = {row[0]: row[1:3] for row in rows}
    assert found == {
        "noise/seed0": ["finished", "2"],
        "noise/seed1": ["running", "2"],
        "strong/seed0": ["damaged", "2"],
        "strong/seed1": ["absent", "0"],
        "judge": ["finished", "2"],
    }
    assert rows[1][4:] == ["3/4,", "1", "absent"]


def test_a_run_that_lost_its_weights_is_not_finished(spoilt: Finished) -> None:
    (spoilt.run("noise/seed0") / "model.safetensors").unlink()
    _, row, *_ = listed(spoilt)
    assert row[:2] == ["noise/seed0", "damaged"]
    assert "lacks model.safetensors" in " ".join(row)


def test_a_record_without_accuracy_does_not_hide_the_other_runs(spoilt: Finished) -> None:
    metrics = spoilt.run("noise/seed0") / "metrics.json"
    write_sealed(metrics, {k: v for k, v in read_json(metrics).items() if k != "top1"})
    rows = listed(spoilt)
    assert rows[1][:4] == ["noise/seed0", "finished", "2", "-"]
    assert len(rows) == 5


def test_a_reader_who_left_causes_no_traceback() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "cemlib", "list"]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, check=False, cwd=ROOT)
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")
