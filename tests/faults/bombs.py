"""Files that would leave a mark if anybody unpickled, unpacked or ran them."""

import io
import pickle
import subprocess
import tarfile
import zipfile
from pathlib import Path

import torch


class _Bomb:
    """Unpickled, it creates a file."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[object, tuple[list[str]]]:
        return subprocess.call, (["touch", str(self.marker)],)


def plain_bomb(marker: Path) -> bytes:
    """A bare pickle."""
    return pickle.dumps(_Bomb(marker), protocol=2)


def torch_bomb(marker: Path) -> bytes:
    """The same as `torch.save` writes it, among named tensors."""
    held = io.BytesIO()
    torch.save({"features.0.weight": torch.zeros(2), "more": _Bomb(marker)}, held)
    return held.getvalue()


def old_torch_bomb(marker: Path) -> bytes:
    """The same in torch's format without an archive."""
    held = io.BytesIO()
    torch.save(_Bomb(marker), held, _use_new_zipfile_serialization=False)
    return held.getvalue()


BOMBS = {"pickle": plain_bomb, "torch": torch_bomb, "old torch": old_torch_bomb}


def escaping_tar(place: str, folder: str, content: bytes) -> bytes:
    """A tar.gz with a member that leaves its folder, one by a link, and sound ones beside them."""
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w:gz") as archive:
        for name in (f"{folder}/data_batch_1", f"../{place}", f"{folder}/../../{place}"):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
        link = tarfile.TarInfo(f"{folder}/out")
        link.type, link.linkname = tarfile.SYMTYPE, "../.."
        archive.addfile(link)
        through = tarfile.TarInfo(f"{folder}/out/{place}")
        archive.addfile(through, io.BytesIO())
    return held.getvalue()


def escaping_zip(place: str) -> bytes:
    """A zip with a member that leaves its folder."""
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        archive.writestr(f"../{place}", "x")
    return held.getvalue()
