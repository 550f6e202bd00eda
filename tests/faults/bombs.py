"""Files that would leave a mark if anybody unpickled them."""

import io
import pickle
import subprocess
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
