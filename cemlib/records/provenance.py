"""The provenance of a result: the source files of its job, their fingerprint, and the machine.

A job's source files are found by following its imports, but not those of a *plug-in package*, whose
`__init__` holds a plain dict from names to members (surrogates, channels, attacks, ...): of these,
only the member that the job's configuration names is added. So an edit of one surrogate reruns the
jobs of that surrogate alone, and adding one reruns nothing.
"""

import ast
import hashlib
import platform
import re
import resource
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from cemlib.records.files import FileError

PACKAGE = Path(__file__).parents[1]
PLUG_INS = {  # kind: its package below this one, and the dict in it
    "surrogates": ("surrogates", "SURROGATES"),
    "channels": ("defences.channels", "CHANNELS"),
    "penalties": ("defences.penalties", "PENALTIES"),
    "models": ("models", "MODELS"),
    "attacks": ("attacks", "ATTACKS"),
    "data": ("data", "SOURCES"),
}
_PACKAGES = frozenset(f"cemlib.{place}" for place, _ in PLUG_INS.values())
# Modules that decide no number. A job's settings are in its slice of the configuration, which
# Snakemake watches as `params`; the others say where files lie and what a log shows.
NEUTRAL = (
    "cemlib.config",
    "cemlib.study",
    "cemlib.records.layout",
    "cemlib.records.progress",
    "cemlib.records.provenance",
)
_IMPORT = re.compile(r"^ *(?:from|import) (cemlib[\w.]*)(?: import (\([^)]*\)|.*))?", re.MULTILINE)
_RELATIVE = re.compile(r"^ *from \.", re.MULTILINE)
_WORD = re.compile(r"\w+")
LIBRARIES = ("numpy", "safetensors", "torch")
_WRITTEN = ("results", "docs", "README.md", "CHANGELOG.md", "config/README.md")  # below the root


@cache
def source_files(*entries: str, **members: str | None) -> tuple[Path, ...]:
    """Return the source files that decide a job's result, sorted; cached, as jobs share them.

    The job starts from the modules `entries`, such as `cemlib.training.job`. `members` name the one
    that it uses of each plug-in package, such as `surrogates="gated"`.
    """
    chosen = (_member(kind, name) for kind, name in members.items() if name is not None)
    waiting, seen = [*entries, *chosen], dict[str, Path]()
    while waiting:
        module = waiting.pop()
        if module not in seen and module not in _PACKAGES and not module.startswith(NEUTRAL):
            seen[module] = _file(module)
            waiting.extend(_imports(module))
    return tuple(sorted(seen.values()))


class Member(NamedTuple):
    """An entry of a plug-in package's dict: the module it comes from, and its name there."""

    module: str
    name: str

    @property
    def file(self) -> Path:
        """Return its source file."""
        return _file(self.module)

    @property
    def docstring(self) -> str:
        """Return its own docstring, not the module's."""
        for node in _tree(self.file).body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == self.name:
                return ast.get_docstring(node) or ""
        return ""


def members(kind: str) -> dict[str, Member]:
    """Return the members of a plug-in package by name, without importing it.

    Raises:
        FileError: if its dict has an entry that is not a name imported from a module.
    """
    place, table = PLUG_INS[kind]
    tree = _tree(file := _file(f"cemlib.{place}"))
    imports = (node for node in tree.body if isinstance(node, ast.ImportFrom))
    known = {a.asname or a.name: Member(str(i.module), a.name) for i in imports for a in i.names}
    entries = _entries(tree, table)
    if odd := [value for _, value in entries if value not in known]:
        raise FileError(f"{file}: {table}: import {odd[0]} by its name, with `from ... import`")
    return {key: known[value] for key, value in entries}


def fingerprint(files: Iterable[Path]) -> str:
    """Return the SHA-256 over the relative names and contents of source files as they are now."""
    return _digest(map(_content, sorted(files)))


def remember(files: Iterable[Path]) -> None:
    """Read source files and the state of the checkout before their code runs, for `provenance`.

    The record of a job is written at its end, when they may have been edited.
    """
    for file in files:
        _first_content(file)
    git_state()


def _digest(contents: Iterable[bytes]) -> str:
    return hashlib.sha256(b"".join(contents)).hexdigest()


def _content(file: Path) -> bytes:
    state = file.stat()
    return _named_content(file, state.st_mtime_ns, state.st_size)


@cache
def _first_content(file: Path) -> bytes:
    """Return what this process read first, which is what it runs."""
    return _content(file)


@cache
def _named_content(file: Path, _time: int, _size: int) -> bytes:
    """Return a source file's name and the checksum of its content, cached until it changes."""
    name = f"{file.relative_to(PACKAGE).as_posix()}\0".encode()
    return name + hashlib.sha256(file.read_bytes()).digest()


def provenance(files: Iterable[Path], device: str, threads: int) -> dict[str, Any]:
    """Return where a result comes from, as its `metrics.json` has it (see `remember`)."""
    return {
        "fingerprint": _digest(map(_first_content, sorted(files))),
        **git_state(),
        "versions": library_versions(),
        "device": device,
        "machine": platform.machine(),
        "processor": cpu_model(),
        "threads": threads,
    }


@cache
def cpu_model() -> str:
    """Return number and model of the processors, from /proc/cpuinfo or else `platform`."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.is_file() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return f"{len(names)} x {names[0]}" if names else platform.processor()


@cache
def library_versions() -> dict[str, str]:
    """Return the versions of Python and of the libraries that compute a job's numbers."""
    return {"python": platform.python_version()} | {name: version(name) for name in LIBRARIES}


@cache
def git_state() -> dict[str, Any]:
    """Return the commit of the package's checkout, and whether its tracked files were changed.

    Pages and published tables do not count: they decide no number, and change while studies run.
    """
    is_tracked = bool(_git("ls-files", "__init__.py"))  # else it is another project's repository
    commit = _git("rev-parse", "HEAD") if is_tracked else ""
    counted = (":/", *(f":(top,exclude){place}" for place in _WRITTEN))
    status = ("status", "--porcelain", "--untracked-files=no", "--", *counted)
    changed = _git(*status) if is_tracked else ""
    return {"commit": commit or "unknown", "dirty": bool(changed)}


def peak_memory_mb() -> float:
    """Return the largest resident memory of this process, in MiB, since `forget_peak_memory`.

    On Linux `ru_maxrss` counts the parent's memory at the fork, and `VmHWM`, which some kernels of
    containers lack, does not. On macOS `ru_maxrss` is in bytes.
    """
    status, largest = Path("/proc/self/status"), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    lines = status.read_text().splitlines() if status.is_file() else []
    peaks = (int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))
    return next(peaks, largest / 1024 if sys.platform == "darwin" else largest) / 1024


def forget_peak_memory() -> None:
    """Start `peak_memory_mb` anew where Linux can, since a process may run several jobs."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def device_name(kind: str) -> str:
    """Return the name of the GPU, or `cpu`."""
    if kind != "cuda":
        return kind
    import torch  # not at the top: Snakemake reads this module at every start

    return torch.cuda.get_device_name()


def _git(*arguments: str) -> str:
    """Return git's output in the package's checkout; empty without git or a checkout."""
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=PACKAGE, capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _file(module: str) -> Path:
    path = PACKAGE.joinpath(*module.split(".")[1:])
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(_source(path), filename=str(path))


def _source(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    if _RELATIVE.search(text):
        raise FileError(f"{path}: relative imports are not followed; write `from cemlib. ...`")
    return text


@cache
def _imports(module: str) -> tuple[str, ...]:
    """Return the modules of this package that a module imports."""
    found = set[str]()  # by a pattern: syntax trees would add 0.3 s to the start of every job
    for start, names in _IMPORT.findall(_source(_file(module))):
        found.update((start, *(f"{start}.{name}" for name in _WORD.findall(names))))
    return tuple(sorted(n for n in found if n.startswith("cemlib.") and _file(n).is_file()))


def _member(kind: str, name: str) -> str:
    """Return the module of a member of a plug-in package."""
    found = members(kind)
    if name not in found:
        place, table = PLUG_INS[kind]
        raise FileError(f"{_file(f'cemlib.{place}')}: {table} has no entry {name!r}; add it there")
    return found[name].module


def _entries(tree: ast.Module, table: str) -> list[tuple[str, str]]:
    """Return (key, value's name) of the dict literal assigned to `table`."""
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Dict):
            target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
            if ast.unparse(target) == table:
                pairs = zip(node.value.keys, node.value.values, strict=True)
                return [(ast.literal_eval(k), ast.unparse(v)) for k, v in pairs if k is not None]
    return []
