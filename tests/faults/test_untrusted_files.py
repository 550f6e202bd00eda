"""Files of strangers: nothing is unpickled, and nothing is unpacked elsewhere."""

import hashlib
import subprocess
import sys
import tarfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import short_study
import torch
import yaml
from bombs import BOMBS, escaping_tar, escaping_zip, plain_bomb, torch_bomb
from safetensors import SafetensorError

from cemlib.attacks.perceptual import vgg16
from cemlib.config import ConfigError, load
from cemlib.config.data import DataConfig
from cemlib.data import DataError
from cemlib.data.prepare import prepare
from cemlib.records.checkpoint import Checkpoint
from cemlib.records.files import FileError, load_arrays, load_tensors, read_json, read_jsonl

STUDY: dict[str, Any] = short_study.STUDY | {
    "attacks": short_study.STUDY["attacks"]
    | {"refinement": {"kind": "optimisation", "start": "decoder", "iterations": 1}},
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


def test_a_whole_study_unpickles_nothing(tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(STUDY, sort_keys=False))
    command = [sys.executable, "-c", WATCHED, "study.yaml"]
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


@pytest.mark.parametrize("kind", BOMBS)
@pytest.mark.parametrize("read", [load_tensors, load_arrays, read_json, read_jsonl])
def test_no_reader_unpickles(tmp_path: Path, read: Callable[[Path], Any], kind: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(BOMBS[kind](tmp_path / "marker"))
    with pytest.raises(FileError, match=f"^{path}: "):
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
    with suppress(SafetensorError):
        assert checkpoint.load() is None
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


def test_no_image_is_unpickled(tmp_path: Path) -> None:
    for place in ("a", "b"):
        (tmp_path / "images" / place).mkdir(parents=True)
        for number in range(6):
            content = plain_bomb(tmp_path / "marker")
            (tmp_path / "images" / place / f"{number}.png").write_bytes(content)
    refuse_set("folder", tmp_path / "images")
    assert not (tmp_path / "marker").exists()


def refuse_set(source: str, root: Path) -> str:
    with pytest.raises(DataError) as caught:
        prepare(DataConfig(source=source, root=str(root)))  # type: ignore[arg-type]
    assert str(root) in str(caught.value)
    return str(caught.value)


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No network."""
    for variable in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(variable, "http://127.0.0.1:9")  # nothing listens on the discard port
    monkeypatch.setenv("no_proxy", "")
    # urllib keeps the opener of its first call, with the proxies of that moment, for the process.
    monkeypatch.setattr("urllib.request._opener", None)


CIFAR = {
    "cifar10": ("CIFAR10", "cifar-10-batches-py"),
    "cifar100": ("CIFAR100", "cifar-100-python"),
}


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("source", CIFAR)
def test_no_batch_of_cifar_is_unpickled_unless_it_is_the_published_one(
    tmp_path: Path, source: str
) -> None:
    from torchvision import datasets

    kind, folder = getattr(datasets, CIFAR[source][0]), tmp_path / "sets" / CIFAR[source][1]
    folder.mkdir(parents=True)
    for name in [name for name, _ in kind.train_list + kind.test_list] + [kind.meta["filename"]]:
        (folder / name).write_bytes(plain_bomb(tmp_path / "marker"))
    archive = escaping_tar("marker", CIFAR[source][1], plain_bomb(tmp_path / "marker"))
    (tmp_path / "sets" / kind.filename).write_bytes(archive)
    assert source in refuse_set(source, tmp_path / "sets")
    assert not (tmp_path / "marker").exists()


@pytest.mark.skipif(not hasattr(tarfile, "data_filter"), reason="Python has it from 3.11.4 on")
@pytest.mark.usefixtures("alone")
def test_an_archive_cannot_write_elsewhere_even_with_the_right_checksum(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from torchvision.datasets import CIFAR10

    archive = escaping_tar("marker", CIFAR10.base_folder, plain_bomb(tmp_path / "marker"))
    (tmp_path / "sets").mkdir()
    (tmp_path / "sets" / CIFAR10.filename).write_bytes(archive)
    checksum = hashlib.md5(archive, usedforsecurity=False).hexdigest()
    monkeypatch.setattr(CIFAR10, "tgz_md5", checksum)
    assert "outside" in refuse_set("cifar10", tmp_path / "sets").lower()
    assert {path.name for path in tmp_path.iterdir()} == {"sets"}


MNIST_FILES = [
    f"{part}-{kind}" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")
]


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize(
    ("source", "kind"), [("mnist", "MNIST"), ("fashion_mnist", "FashionMNIST")]
)
@pytest.mark.parametrize("place", ["processed", "raw", "archive"])
def test_nothing_of_mnist_is_unpickled(tmp_path: Path, source: str, kind: str, place: str) -> None:
    root = tmp_path / "sets"
    names = {
        "processed": ["training.pt", "test.pt"],
        "raw": [f"{name}-ubyte" for name in MNIST_FILES],
        "archive": [f"{name}-ubyte.gz" for name in MNIST_FILES],
    }[place]
    for name in names:
        file = root / kind / ("processed" if place == "processed" else "raw") / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(torch_bomb(tmp_path / "marker"))
    message = refuse_set(source, root)
    assert place != "processed" or "pickles of an old torchvision" in message
    assert not (tmp_path / "marker").exists()


@pytest.mark.usefixtures("alone")
def test_svhn_and_archives_in_place_of_a_folder_are_refused(tmp_path: Path) -> None:
    (tmp_path / "sets").mkdir()
    for name in ("train_32x32.mat", "test_32x32.mat"):
        (tmp_path / "sets" / name).write_bytes(plain_bomb(tmp_path / "marker"))
    refuse_set("svhn", tmp_path / "sets")
    for name, content in (
        ("a.tar.gz", escaping_tar("marker", "a", b"")),
        ("a.zip", escaping_zip("marker")),
    ):
        (tmp_path / name).write_bytes(content)
        assert "no such folder" in refuse_set("folder", tmp_path / name)
    assert not (tmp_path / "marker").exists()
