"""Image folders with one or several things wrong, made on the spot."""

import io
import os
import random
import shutil
import struct
import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

CLASSES = ("a", "b", "c")
Damage = Callable[[Path, random.Random], None]
Content = bytes | Callable[[random.Random], bytes]


@cache
def encoded(seed: int, kind: str = "PNG", size: tuple[int, int] = (9, 9)) -> bytes:
    """A file of noise."""
    noise = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    return saved(Image.fromarray(noise), kind)


def saved(image: Image.Image, kind: str) -> bytes:
    held = io.BytesIO()
    image.save(held, kind)
    return held.getvalue()


def write_folder(root: Path, chance: random.Random) -> None:
    """A sound folder: train and test, or one pool."""
    parts = {"train": 6, "test": 2} if chance.random() < 0.7 else {".": 7}
    for part, count in parts.items():
        for name in CLASSES:
            place = root / part / name
            place.mkdir(parents=True)
            for number in range(count):
                kind = chance.choice(["PNG", "PNG", "JPEG", "WEBP", "GIF", "TIFF"])
                suffix = {"JPEG": "jpg"}.get(kind, kind.lower())
                content = encoded(chance.randrange(10**6), kind)
                (place / f"{number}.{suffix}").write_bytes(content)


def _class(root: Path, chance: random.Random) -> Path:
    """Some class folder."""
    found = [
        p for p in sorted(root.glob("*/*" if (root / "train").exists() else "*")) if p.is_dir()
    ]
    return chance.choice(found) if found else root


def _file(root: Path, chance: random.Random) -> Path:
    """Some image."""
    found = [path for path in sorted(_class(root, chance).iterdir()) if path.is_file()]
    return chance.choice(found) if found else _class(root, chance) / "new.png"


def _content(made: Content) -> Damage:
    """Another content for some image."""
    return lambda root, chance: _put(_file(root, chance), _made(made, chance))


def _put(path: Path, content: bytes) -> None:
    path.unlink(missing_ok=True)
    path.write_bytes(content)


def _extra(name: str, made: Content) -> Damage:
    """One more file in some class."""
    return lambda root, chance: _put(_class(root, chance) / name, _made(made, chance))


def _made(made: Content, chance: random.Random) -> bytes:
    return made if isinstance(made, bytes) else made(chance)


def _any(chance: random.Random, **options: Any) -> bytes:
    return encoded(chance.randrange(10**6), **options)


def _truncated(root: Path, chance: random.Random) -> None:
    path = _file(root, chance)
    content = path.read_bytes() if path.exists() else b""
    _put(path, content[: chance.randrange(len(content) + 1)])


def _flipped(root: Path, chance: random.Random) -> None:
    path = _file(root, chance)
    content = bytearray(path.read_bytes() if path.exists() else b"x")
    for _ in range(chance.randint(1, 20)):
        if content:
            content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    _put(path, bytes(content))


def claimed_png(width: int, height: int) -> bytes:
    """A PNG whose header promises more than its data hold."""
    content = bytearray(encoded(0))
    content[16:24] = struct.pack(">II", width, height)
    content[29:33] = struct.pack(">I", zlib.crc32(content[12:29]))
    return bytes(content)


def _claimed(chance: random.Random) -> bytes:
    size = chance.choice([60_000, 2**31 - 1, 20_000])
    return chance.choice(
        [
            claimed_png(size, size),
            b"GIF89a" + struct.pack("<HHBBB", 65535, 65535, 0, 0, 0) + b",",
            b"P6 %d %d 255\n" % (size, size),
            b"BM"
            + struct.pack("<IIIIiiHHIIiiII", 99, 0, 54, 40, size, size, 1, 24, 0, 0, 0, 0, 0, 0),
        ]
    )


def _in_the_way(make: Callable[[Path], None], name: str, beside: bool = False) -> Damage:
    """Something other than a file, in some class or beside the class folders."""

    def damage(root: Path, chance: random.Random) -> None:
        place = _class(root, chance)
        path = (place.parent if beside else place) / name
        if not os.path.lexists(path):
            make(path)

    return damage


def _emptied(keep: int) -> Damage:
    def damage(root: Path, chance: random.Random) -> None:
        for path in sorted(_class(root, chance).iterdir())[keep:]:
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()

    return damage


def _renamed(name: bytes) -> Damage:
    def damage(root: Path, chance: random.Random) -> None:
        place = _class(root, chance)
        if not os.path.lexists(place.with_name(os.fsdecode(name))):
            place.rename(place.with_name(os.fsdecode(name)))

    return damage


def _lost_class(root: Path, chance: random.Random) -> None:
    shutil.rmtree(_class(root, chance))


def _lost_part(root: Path, chance: random.Random) -> None:
    part = root / chance.choice(["train", "test"])
    if part.is_dir():
        shutil.rmtree(part)
        if chance.random() < 0.5:
            part.write_bytes(b"")


def _duplicated(root: Path, chance: random.Random) -> None:
    """Files of one part also in another, so that a test image was trained on."""
    for number in range(chance.randint(1, 5)):
        source, target = _file(root, chance), _class(root, chance)
        if source.is_file():
            shutil.copy(source, target / f"copy{number}{source.suffix}")


def _one_colour(root: Path, _: random.Random) -> None:
    for path in sorted(root.rglob("*.*")):
        if path.is_file():
            _put(path, saved(Image.new("RGB", (9, 9), (7, 7, 7)), "PNG"))


def _unreadable(root: Path, chance: random.Random) -> None:
    chance.choice([_file, _class])(root, chance).chmod(0)


DAMAGES: dict[str, Damage] = {
    "truncated": _truncated,
    "flipped": _flipped,
    "0 bytes": _content(b""),
    "text": _content(b"not a picture"),
    "noise": _content(lambda chance: chance.randbytes(300)),
    "wrong suffix": _content(lambda chance: _any(chance, kind="BMP")),
    "claimed": _content(_claimed),
    "pipe": _in_the_way(os.mkfifo, "pipe.png"),
    "device": _in_the_way(lambda path: path.symlink_to("/dev/zero"), "zero.png"),
    "loop": _in_the_way(lambda path: path.symlink_to(path.name), "loop.png"),
    "dangling": _in_the_way(lambda path: path.symlink_to("nowhere"), "gone.png"),
    "link": _in_the_way(lambda path: path.symlink_to(path.parent), "inner"),
    "nested": _in_the_way(Path.mkdir, "more"),
    "folder.png": _in_the_way(Path.mkdir, "folder.png"),
    "hidden folder": _in_the_way(Path.mkdir, ".cache"),
    "hidden": _extra("._0.png", b"resource fork"),
    "no image": _extra("Thumbs.db", b"\0"),
    "upper case": _extra("NEW.PNG", _any),
    "no UTF-8": _extra(os.fsdecode(b"\xff\xfe.png"), _any),
    "no UTF-8, broken": _extra(os.fsdecode(b"\xff\n.png"), b""),
    "escape": _extra("\x1b[2J\nerror: nothing.png", b""),
    "long name": _extra("x" * 240 + ".png", _any),
    "class loop": _in_the_way(lambda path: path.symlink_to(path.name), "loop", beside=True),
    "class gone": _in_the_way(lambda path: path.symlink_to("nowhere"), "gone", beside=True),
    "class link": _in_the_way(lambda path: path.symlink_to("."), "all", beside=True),
    "stray file": _in_the_way(lambda path: path.write_bytes(b""), "README", beside=True),
    "empty class": _in_the_way(Path.mkdir, "empty", beside=True),
    "emptied": _emptied(0),
    "one image": _emptied(1),
    "class no UTF-8": _renamed(b"\xff"),
    "class escape": _renamed(b"\x1b[2J\nb"),
    "class renamed": _renamed("ünï cødé".encode()),
    "class lost": _lost_class,
    "part lost": _lost_part,
    "duplicated": _duplicated,
    "one colour": _one_colour,
}
if os.geteuid() != 0:  # who may read everything
    DAMAGES["unreadable"] = _unreadable
