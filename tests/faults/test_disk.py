"""Full and read-only disks: one clear line, nothing half-written, and the same command goes on.

The disk is a file system of 3 MB in memory, which only root may mount; elsewhere a
limit on the size of a file stands for it.
"""

import re
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import short_study
import yaml
from result_files import content
from short_study import SMALL

from cemlib.cli import main
from cemlib.evaluation import job as attacking
from cemlib.records.checkpoint import Checkpoint
from cemlib.training import job as training

PAGE = 4096
SIZE = 800  # pages of the disk
GENTLE = 3  # times the room each time, so that more kinds of files meet a full disk
GROWTH = [100, pytest.param(GENTLE, marks=pytest.mark.slow)]
STUDY = short_study.STUDY | {
    "train": short_study.STUDY["train"] | {"epochs": 3},
    "attacks": short_study.STUDY["attacks"] | {"decoder": SMALL | {"epochs": 3}},
}
TABLES, FIGURE = ("report", "--only", "tables"), ("report", "--only", "training_figures")
COMMANDS = (("prepare",), ("train",), ("attack",), TABLES, FIGURE)
COMPLAINT = re.compile(
    r"error: (?P<path>.+): cannot be written: (?P<cause>.+) \(needs (?P<needed>[\d,]+) bytes, "
    r"(?P<free>[\d,]+) free there\); free some space or grant write permission, then run the same "
    r"command again"
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results of the study where there was always room."""
    folder = tmp_path_factory.mktemp("whole")
    assert [cemlib(folder, *command) for command in COMMANDS] == [0] * 5
    return folder / "results"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator["Disk"]:
    place = tmp_path / "disk"
    place.mkdir()
    options = ["-t", "tmpfs", "-o", f"size={SIZE * PAGE}", "tmpfs"]
    if shutil.which("mount") is None or subprocess.run(["mount", *options, place]).returncode:
        pytest.skip("no right to mount a file system")
    try:
        yield Disk(place)
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)


class Disk:
    """A small disk, whose room a ballast takes."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self._ballast = place / "ballast"

    def leave(self, pages: int) -> None:
        """Leave so many pages free."""
        self._ballast.unlink(missing_ok=True)
        free = shutil.disk_usage(self.place).free - pages * PAGE
        self._ballast.write_bytes(bytes(max(0, free)))

    def make_room(self) -> None:
        self._ballast.unlink(missing_ok=True)

    def allow(self, access: str) -> None:
        """`rw` or `ro`."""
        subprocess.run(["mount", "-o", f"remount,{access}", self.place], check=True)


def cemlib(folder: Path, *arguments: str) -> int:
    path = folder.parent / f"{folder.name}.yaml"
    path.write_text(yaml.safe_dump(STUDY | {"results": str(folder / "results")}))
    return main([*arguments, "--config", str(path)])


def complaint(error: str, folder: Path) -> dict[str, str]:
    """Parts of the one error line, checked against each other."""
    (line,) = (x for x in error.splitlines() if x.startswith("error: "))
    found = COMPLAINT.fullmatch(line)
    assert found is not None, line
    assert Path(found["path"]).is_relative_to(folder)
    assert "Traceback" not in error
    return found.groupdict()


def number(text: str) -> int:
    return int(text.replace(",", ""))


def files(results: Path) -> dict[str, Path]:
    """Every file by its name, temporary ones too, but no checkpoints, which are not results."""
    found = (path for path in results.rglob("*") if path.is_file())
    named = {str(path.relative_to(results)): path for path in found}
    return {name: path for name, path in named.items() if not name.startswith(".checkpoints")}


def check_nothing_half_written(results: Path, whole: Path) -> None:
    """What is there is as it would be in the end, but for curves that are still growing."""
    expected = files(whole)
    for name, path in files(results).items():
        if name.endswith("history.jsonl"):
            assert content(path) == content(expected[name])[: len(content(path))]
        elif not name.endswith("runs.csv"):
            assert content(path) == content(expected[name]), name


@pytest.mark.parametrize("growth", GROWTH)
def test_every_write_that_meets_a_full_disk(
    disk: Disk, whole: Path, capsys: pytest.CaptureFixture[str], growth: int
) -> None:
    """A little more room each time, until the command can finish; then the next one."""
    results, refused = disk.place / "results", set()
    for command in COMMANDS:
        pages = 0
        disk.leave(pages)
        while (code := cemlib(disk.place, *command)) != 0:
            assert code == 2
            found = complaint(capsys.readouterr().err, disk.place)
            assert found["cause"] == "No space left on device"
            assert number(found["needed"]) > number(found["free"])
            assert not list(disk.place.rglob(".*.*.*"))
            check_nothing_half_written(results, whole)
            refused.add(Path(found["path"]).name)
            pages = max(1, growth * pages)
            disk.leave(pages)
        disk.make_room()
    assert {"prepared.safetensors", "history.jsonl", "runs.csv"} <= refused
    if growth == GENTLE:
        assert {"model.safetensors", "attacker.safetensors", "training_curves.png"} <= refused
    assert files(results).keys() == files(whole).keys()
    check_nothing_half_written(results, whole)


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checkpoints after every epoch instead of every 20 seconds."""
    for module in (training, attacking):
        monkeypatch.setattr(module, "Checkpoint", partial(Checkpoint, interval=0.0))


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("command", ["train", "attack"])
def test_a_checkpoint_without_room_is_the_one_before(
    disk: Disk, whole: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    """There is room for the first epoch's, but not for the second's beside it."""
    for before in COMMANDS[: 1 if command == "train" else 2]:
        assert cemlib(disk.place, *before) == 0
    disk.leave(2)
    capsys.readouterr()
    assert cemlib(disk.place, command) == 2
    size = number(complaint(capsys.readouterr().err, disk.place)["needed"])
    disk.leave(3 * size // (2 * PAGE) + 2)
    assert cemlib(disk.place, command) == 2
    found = complaint(capsys.readouterr().err, disk.place)
    assert ".checkpoints" in found["path"]
    disk.make_room()
    assert cemlib(disk.place, command) == 0
    assert " epoch 2/3" in capsys.readouterr().err.splitlines()[0]
    check_nothing_half_written(disk.place / "results", whole)
    assert not list((disk.place / "results/.checkpoints").rglob("*"))


def test_a_disk_that_becomes_read_only(
    disk: Disk, whole: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in COMMANDS[:4]:
        disk.allow("ro")
        assert cemlib(disk.place, *command) == 2
        line = next(x for x in capsys.readouterr().err.splitlines() if x.startswith("error: "))
        assert "Read-only file system" in line
        assert f"{disk.place}/results" in line
        disk.allow("rw")
        assert cemlib(disk.place, *command) == 0
    check_nothing_half_written(disk.place / "results", whole)


def test_a_limit_on_the_size_of_files(tmp_path: Path, whole: Path) -> None:
    """Without any right: the weights are refused, and everything smaller was written."""
    assert cemlib(tmp_path, "prepare") == 0
    limit = (whole / "short/judge/model.safetensors").stat().st_size - 1
    command = [sys.executable, "-m", "cemlib", "train", "--defence", "judge"]
    done = subprocess.run(
        [*command, "--config", f"{tmp_path}.yaml"],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2, done.stderr
    found = complaint(done.stderr, tmp_path)
    assert Path(found["path"]).name == "model.safetensors"
    assert (found["cause"], number(found["needed"])) == ("File too large", limit + 1)
    check_nothing_half_written(tmp_path / "results", whole)
    assert not (tmp_path / "results/short/judge/metrics.json").exists()
    assert cemlib(tmp_path, *command[3:]) == 0
    check_nothing_half_written(tmp_path / "results", whole)


@pytest.mark.parametrize("growth", GROWTH)
def test_an_upload_without_room_is_made_good(
    disk: Disk, whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], growth: int
) -> None:
    """The store and its artifacts lie on the full disk, the results elsewhere."""
    unreported = shutil.ignore_patterns("tables", "figures")
    shutil.copytree(whole, tmp_path / "results", ignore=unreported)
    uri = f"sqlite:///{disk.place / 'mlflow.db'}"
    pages, refused = 0, 0
    disk.leave(pages)
    capsys.readouterr()
    while (code := cemlib(tmp_path, "track", "--uri", uri)) != 0:
        assert code == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("error: ")
        assert str(disk.place) in line
        refused += 1
        pages = max(1, growth * pages)
        disk.leave(pages)
    assert refused > 1
    uploaded, unchanged = map(int, re.findall(r"(\d+) (?:uploaded|unchanged)", _out(capsys)))
    assert uploaded + unchanged == 7
    assert cemlib(tmp_path, "track", "--uri", uri) == 0
    assert "0 uploaded, 7 unchanged" in _out(capsys)
    assert not list(disk.place.glob(".*"))


def _out(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().out
