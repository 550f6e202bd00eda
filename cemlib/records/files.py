"""Reading and writing result files: every write is atomic, everything read is checked."""

import hashlib
import json
import math
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # torch takes two seconds to import: only readers of tensors pay for it
    from torch import Tensor


class FileError(ValueError):
    """A file is missing, damaged or cannot be used; the message names it and says what to do."""


@contextmanager
def atomic(path: Path, size: int | None = None) -> Iterator[Path]:
    """Yield a temporary path in the folder of ``path``; move it into place if the block succeeds.

    A reader sees the old file or the whole new one, never a part, whatever interrupts the writer.

    Raises:
        FileError: if the disk is full or fails, or writing is not permitted; with ``size``, in
            bytes, the message says how much is needed.

    Example:
        >>> from tempfile import mkdtemp
        >>> path = Path(mkdtemp()) / "new" / "file.txt"
        >>> with atomic(path) as temporary:
        ...     _ = temporary.write_text("whole")
        ...     path.exists()
        False
        >>> path.read_text()
        'whole'
    """
    temporary = path.with_name(f".{path.stem}.{os.getpid()}.{secrets.token_hex(4)}{path.suffix}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield temporary
            with temporary.open("rb") as handle:
                os.fsync(handle.fileno())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise unwritable(path, size, error) from error


def write_bytes(path: Path, data: bytes) -> None:
    """Write ``data`` to ``path`` atomically."""
    with atomic(path, len(data)) as temporary:
        temporary.write_bytes(data)


def write_text(path: Path, text: str) -> None:
    """Write ``text`` to ``path`` atomically, as UTF-8."""
    write_bytes(path, text.encode())


def write_json(path: Path, obj: Any) -> None:
    """Write ``obj`` as indented JSON; non-finite numbers become null, which JSON can hold."""
    write_text(path, json.dumps(finite(obj), indent=2, ensure_ascii=False) + "\n")


def write_jsonl(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write one JSON object per line."""
    write_text(path, "".join(json.dumps(finite(row)) + "\n" for row in rows))


def read_json(path: Path) -> Any:
    """Read a JSON file; raise FileError if it is missing or is not JSON."""
    return _parse(path, _read(path))


def read_record(path: Path, keys: Iterable[str]) -> dict[str, Any]:
    """Read a JSON object; raise FileError if there is none, or if it lacks one of the keys."""
    return parse_record(path, _read(path), keys)


def parse_record(path: Path, content: bytes, keys: Iterable[str]) -> dict[str, Any]:
    """Parse the content of a file as `read_record` does."""
    found = _parse(path, content)
    if not isinstance(found, dict):
        raise FileError(f"{path}: not a JSON object; delete it and rerun the job that writes it")
    for key in keys:
        if key not in found:
            raise FileError(f"{path}: no key {key!r}; delete it and rerun the job that writes it")
    return found


def read_jsonl(path: Path) -> list[dict[str, Any]]:
    """Read a file of one JSON object per line (see `read_json` for errors)."""
    return parse_jsonl(path, _read(path))


def parse_jsonl(path: Path, content: bytes) -> list[dict[str, Any]]:
    """Parse the content of a file as `read_jsonl` does."""
    return [_parse(path, line) for line in content.splitlines() if line.strip()]


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file's content in hexadecimal."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def save_tensors(path: Path, tensors: "Mapping[str, Tensor]") -> None:
    """Write named tensors as a safetensors file."""
    from safetensors.torch import save

    on_cpu = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    write_bytes(path, save(on_cpu))


def load_tensors(path: Path) -> "dict[str, Tensor]":
    """Read the named tensors of a safetensors file, on the CPU, in the order of their names.

    safetensors 0.8 returns them in random order, and its `load_file` never frees the names it read.

    Raises:
        FileError: if the file is missing or damaged.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        return dict(sorted(load(_read(path)).items()))
    except SafetensorError as error:
        raise FileError(
            f"{path}: not a whole safetensors file ({error}); delete it and rerun"
        ) from error


def finite(obj: Any) -> Any:
    """Return ``obj`` as JSON can hold it: null for a number that is not finite, lists for tuples.

    >>> finite({"mse": float("nan"), "shape": (3, 32, 32)})
    {'mse': None, 'shape': [3, 32, 32]}
    """
    if isinstance(obj, float) and not math.isfinite(obj):
        return None
    if isinstance(obj, Mapping):
        return {key: finite(value) for key, value in obj.items()}
    if isinstance(obj, list | tuple):
        return [finite(value) for value in obj]
    return obj


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        how = "run the job that writes it (`cemlib run` runs all whose files are missing)"
        raise FileError(f"{path}: no such file; {how}") from error


def _parse(path: Path, content: bytes) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise FileError(f"{path}: not valid JSON ({error}); delete it and rerun") from error


def unwritable(path: Path, size: int | None, error: OSError) -> FileError:
    """Return the error for a file that cannot be written, with the bytes that it needs."""
    needed = "" if size is None else f"needs {size:,} bytes, "
    there = next((place for place in path.parents if os.access(place, os.F_OK)), Path())
    return FileError(
        f"{path}: cannot be written: {error.strerror or error} ({needed}"
        f"{shutil.disk_usage(there).free:,} free there); free some space or grant write permission,"
        " then run the same command again"
    )
