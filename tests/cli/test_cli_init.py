"""`cemlib init` writes a study that `cemlib doctor` finds sound once the images are there."""

from pathlib import Path

import pytest
from image_folders import write_class

from cemlib.cli import main
from cemlib.config import load
from cemlib.records.files import read_json


def test_a_new_study_is_sound_and_prepares_its_images(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a folder whose name means something to YAML."""
    monkeypatch.chdir(tmp_path)
    images = tmp_path / 'a: "b" #{c'
    assert main(["init", "faces", "--images", str(images)]) == 0
    study = load(Path("faces.yaml"))
    assert (study.experiment, study.data.root, study.reference) == ("faces", str(images), "noise")
    assert main(["doctor", "--config", "faces.yaml"]) == 1
    assert "no such folder" in capsys.readouterr().out
    for label in range(3):
        write_class(images / f"{label}", 30, label, (40, 40, 3))
    assert main(["doctor", "--config", "faces.yaml"]) == 0
    assert "3 classes in" in capsys.readouterr().out
    assert main(["prepare", "--config", "faces.yaml"]) == 0
    described = read_json(Path("results/faces/data/data.json"))
    assert (sum(described["counts"].values()), described["image_shape"]) == (90, [3, 32, 32])


@pytest.mark.parametrize("name", ["my study", "../up", "null", "123", "a.yaml"])
def test_a_name_that_no_study_may_have_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["init", name]) == 2
    assert "error: experiment: " in capsys.readouterr().err
    assert not list(tmp_path.rglob("*"))


def test_a_study_that_is_there_is_not_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("faces.yaml").write_text("mine")
    assert main(["init", "faces"]) == 2
    assert "faces.yaml: already exists" in capsys.readouterr().err
    assert Path("faces.yaml").read_text() == "mine"
