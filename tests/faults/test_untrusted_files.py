"""Files of strangers: nothing is unpickled."""

import hashlib
import io
import pickle
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import short_study
import torch
from short_study import REFINEMENT, configure

from cemlib.attacks.perceptual import vgg16
from cemlib.config import ConfigError, load
from cemlib.config.data import DataConfig
from cemlib.data import DataError
from cemlib.data.images import read_image
from cemlib.data.prepare import prepare
from cemlib.records.checkpoint import Checkpoint
from cemlib.records.files import FileError, load_tensors, read_json, read_jsonl

STUDY: dict[str, Any] = short_study.STUDY | {
    "attacks": short_study.STUDY["attacks"] | {"refinement": REFINEMENT | {"iterations": 1}},
}
# Python tells an audit hook of every class or function that a pickle names.
WATCHED = """
import sys
named = []
sys.addaudithook(lambda event, arguments: event == "pickle.find_class" and named.append(arguments))
import pickle
pickle.loads(pickle.dumps(print))
assert len(named) == 1, "the hook is deaf"
from cemlib.cli import main
reports = ("report --only tables", "report --only training_figures")
for command in ("prepare", "train", "attack", *reports):
    assert main([*command.split(), "--config", sys.argv[1]]) == 0
assert len(named) == 1, named
"""


class Bomb:
    """Unpickled, it creates a file."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[object, tuple[list[str]]]:
        return subprocess.call, (["touch", str(self.marker)],)


def plain_bomb(marker: Path) -> bytes:
    """A bare pickle."""
    return pickle.dumps(Bomb(marker), protocol=2)


def torch_bomb(marker: Path) -> bytes:
    """The same as `torch.save` writes it, among named tensors."""
    held = io.BytesIO()
    torch.save({"features.0.weight": torch.zeros(2), "more": Bomb(marker)}, held)
    return held.getvalue()


def old_torch_bomb(marker: Path) -> bytes:
    """The same in torch's format without an archive."""
    held = io.BytesIO()
    torch.save(Bomb(marker), held, _use_new_zipfile_serialization=False)
    return held.getvalue()


# Files that would leave a mark if anybody unpickled them.
BOMBS = {"pickle": plain_bomb, "torch": torch_bomb, "old torch": old_torch_bomb}


def test_a_whole_study_unpickles_nothing(tmp_path: Path) -> None:
    *_, config = configure(tmp_path, STUDY)
    command = [sys.executable, "-c", WATCHED, config]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_bombs_do_go_off(tmp_path: Path) -> None:
    for number, make in enumerate(BOMBS.values()):
        marker, bomb = tmp_path / f"marker{number}", tmp_path / f"bomb{number}"
        bomb.write_bytes(make(marker))
        assert not marker.exists()
        with suppress(RuntimeError):  # the one that is no file of torch's
            torch.load(bomb, weights_only=False)
        assert marker.exists()


def image(path: Path) -> Any:
    return read_image(path, 16, None)


@pytest.mark.parametrize("kind", BOMBS)
@pytest.mark.parametrize("read", [load_tensors, read_json, read_jsonl, image])
def test_no_reader_unpickles(tmp_path: Path, read: Callable[[Path], Any], kind: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(BOMBS[kind](tmp_path / "marker"))
    with pytest.raises((FileError, DataError), match=f"^{path}: "):
        read(path)
    assert not (tmp_path / "marker").exists()


def test_no_checkpoint_is_unpickled(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    checkpoint = Checkpoint(tmp_path / "checkpoints/job")
    checkpoint.folder.mkdir(parents=True)
    bomb = plain_bomb(tmp_path / "marker")
    checkpoint.path.write_bytes(bomb)
    assert checkpoint.load() is None
    assert str(checkpoint.path) in capfd.readouterr().err
    checkpoint.path.write_bytes(hashlib.sha256(bomb).digest() + bomb)  # as a forger would
    assert checkpoint.load() is None
    assert "not a safetensors file" in capfd.readouterr().err
    assert not (tmp_path / "marker").exists()


@pytest.mark.parametrize("kind", BOMBS)
def test_no_configuration_is_unpickled(tmp_path: Path, kind: str) -> None:
    for name in ("study.yaml", "study.json"):
        (tmp_path / name).write_bytes(BOMBS[kind](tmp_path / "marker"))
        with pytest.raises(ConfigError, match=name):
            load(tmp_path / name)
    (tmp_path / "study.yaml").write_text(
        f"a: !!python/object/apply:subprocess.call [[touch, {tmp_path / 'marker'}]]\n"
        f"b: !!python/object/new:os.system ['touch {tmp_path / 'marker'}']\n"
    )
    with pytest.raises(ConfigError, match=r"study\.yaml: not a YAML file: .*subprocess"):
        load(tmp_path / "study.yaml")
    assert not (tmp_path / "marker").exists()


@pytest.mark.parametrize("kind", BOMBS)
def test_no_pretrained_weights_are_unpickled_beyond_tensors(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "vgg16.pth"
    path.write_bytes(BOMBS[kind](tmp_path / "marker"))
    with pytest.raises(FileError, match=r"vgg16\.pth: pretrained"):
        vgg16(path, 32)
    assert not (tmp_path / "marker").exists()


CIFAR = {
    "cifar10": ("CIFAR10", "cifar-10-batches-py"),
    "cifar100": ("CIFAR100", "cifar-100-python"),
}


@pytest.mark.usefixtures("offline")
@pytest.mark.parametrize("source", CIFAR)
def test_no_batch_of_cifar_is_unpickled_unless_it_is_the_published_one(
    tmp_path: Path, source: str
) -> None:
    from torchvision import datasets

    root, bomb = tmp_path / "sets", plain_bomb(tmp_path / "marker")
    kind, folder = getattr(datasets, CIFAR[source][0]), root / CIFAR[source][1]
    folder.mkdir(parents=True)
    for name in [name for name, _ in kind.train_list + kind.test_list] + [kind.meta["filename"]]:
        (folder / name).write_bytes(bomb)
    (root / kind.filename).write_bytes(bomb)
    assert source in refused(source, root)
    assert not (tmp_path / "marker").exists()


@pytest.mark.parametrize(
    ("source", "kind"), [("mnist", "MNIST"), ("fashion_mnist", "FashionMNIST")]
)
def test_pickles_of_an_old_torchvision_are_not_loaded(
    tmp_path: Path, source: str, kind: str
) -> None:
    """A new one would still look there."""
    old = tmp_path / "sets" / kind / "processed"
    old.mkdir(parents=True)
    for name in ("training.pt", "test.pt"):
        (old / name).write_bytes(torch_bomb(tmp_path / "marker"))
    assert "pickles of an old torchvision" in refused(source, tmp_path / "sets")
    assert not (tmp_path / "marker").exists()


def refused(source: str, root: Path) -> str:
    with pytest.raises(DataError) as caught:
        prepare(DataConfig(source=source, root=str(root)))
    assert str(root) in str(caught.value)
    return str(caught.value)
