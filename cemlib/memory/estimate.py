"""The estimate of a whole study: a row for each kind of job, and the peak of some at once."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from cemlib.config import ConfigError
from cemlib.config.study import JUDGE
from cemlib.doctor.machine import available_memory
from cemlib.memory.attacks import attacks
from cemlib.memory.facts import Facts, facts
from cemlib.memory.heap import Heap
from cemlib.memory.preparation import preparation
from cemlib.memory.process import Bare
from cemlib.memory.training import training
from cemlib.plan import Plan

MIB = 2**20


@dataclass(frozen=True)
class Row:
    """What a job needs at its peak, in bytes.

    Attributes:
        kind: `prepare`, `judge`, `train` or `attack`.
        of: the defence, and of an attack its name too.
        host: resident memory of its process, what the allocator keeps included.
        device: tensors on the graphics card; None where the job computes on the CPU.
    """

    kind: str
    of: str
    host: int
    device: int | None


@dataclass(frozen=True)
class Estimate:
    """All rows of a study, and what they assume."""

    rows: tuple[Row, ...]
    facts: Facts
    device: str

    def host(self, slots: int = 1) -> int:
        """Bytes of so many jobs at once: the most that any can need, each."""
        return slots * max(row.host for row in self.rows)

    def on_device(self, slots: int = 1) -> int:
        """The same on the graphics card; 0 without one."""
        return slots * max((row.device or 0 for row in self.rows), default=0)


def estimate(plan: Plan, device: str) -> Estimate:
    """Rehearse every kind of job of a study.

    Args:
        plan: the study.
        device: `cpu` or `cuda`.

    Raises:
        DataError: if the images are to be counted in a folder and it is not there.
        ConfigError: if a network, a defence or an attack cannot be built as configured.
    """
    found, study = facts(plan), plan.study
    bare = Bare(study.data.source, device)
    names = [JUDGE, *study.defences]
    rows = [Row("prepare", study.data.source, bare.prepare + preparation(study.data, found), None)]
    data = sum(found.counts.values()) * found.image_bytes
    for name in names:
        kind = "judge" if name == JUDGE else "train"
        with _blaming(f"defences.{name}"):
            heap = training(study, found, name)
        rows.append(_row(kind, name, bare.train, data, heap, device))
    for of, heap in _attack_heaps(plan, found):
        rows.append(_row("attack", of, bare.attack, data, heap, device))
    return Estimate(tuple(rows), found, device)


def _attack_heaps(plan: Plan, found: Facts) -> Iterator[tuple[str, Heap]]:
    """Of every attack job; defences that are alike when deployed are rehearsed once."""
    known = dict[tuple[str, bool, float, str], Heap]()
    for name, settings in plan.study.defences.items():
        channel = settings.channel.model_dump_json()
        for label, together in _attack_jobs(plan):
            key = (channel, settings.sparse_coding, settings.noise_std, label)
            if key not in known:
                with _blaming(f"attacks.{label}"):
                    known[key] = attacks(plan.study, found, name, together)
            yield f"{name} {label}", known[key]


@contextmanager
def _blaming(key: str) -> Iterator[None]:
    """An error names the section that asked for what cannot be built."""
    try:
        yield
    except ValueError as error:
        raise ConfigError(f"{key}: {error}") from error


def _attack_jobs(plan: Plan) -> list[tuple[str, tuple[str, ...]]]:
    """Name and attacks of every attack job on a run."""
    jobs = [(name, (name,)) for name in plan.study.learned_attacks()]
    together = plan.study.closed_form_attacks()
    return [*jobs, *([("closed_form", together)] if together else [])]


def _row(kind: str, of: str, bare: int, data: int, heap: Heap, device: str) -> Row:
    """On a graphics card nothing but the images, as they are read, is in the process itself."""
    if device == "cuda":
        return Row(kind, of, bare + data, heap.most)
    return Row(kind, of, bare + heap.top, None)


def table(found: Estimate, slots: int) -> Iterator[str]:
    """The rows, the peaks and the assumptions, as lines."""
    yield f"{'job':<8} {'of':<34} {'host MiB':>9} {'device MiB':>11}"
    for row in found.rows:
        on_device = "-" if row.device is None else f"{row.device / MIB:,.0f}"
        yield f"{row.kind:<8} {row.of:<34} {row.host / MIB:>9,.0f} {on_device:>11}"
    yield from (line(found, count) for count in sorted({1, slots}))
    yield f"images: {found.facts.origin}"
    yield "counted as float32; one process a job, the memory that its allocator keeps included"
    if found.device == "cuda":
        yield "device: tensors alone, without CUDA's context and what its allocator keeps"


def line(found: Estimate, slots: int) -> str:
    """The peak of so many jobs at once, in one line."""
    jobs = "one job" if slots == 1 else f"{slots} jobs at once"
    text = f"memory: {found.host(slots) / MIB:,.0f} MiB at the peak of {jobs}"
    if found.device == "cuda":
        text += f" and {found.on_device(slots) / MIB:,.0f} MiB of tensors on the graphics card"
    return text + " (estimate)"


def warning(found: Estimate, slots: int) -> str | None:
    """One line if the peak is more than the machine, or its control group, has free."""
    free = available_memory()
    if free is None or found.host(slots) <= free:
        return None
    return (
        f"warning: {slots} jobs at once may need {found.host(slots) / MIB:,.0f} MiB of memory,"
        f" {free / MIB:,.0f} MiB are free here; fewer at once need less"
    )
