"""Whether the files of a job are those that it would write now.

A run is compared by its settings, its code and the checksum of the data it was trained on. An
attack records its settings and code but not which weights it attacked, so the times of the files
have to say that it came after the run, the judge and the decoder it read; likewise the report came
after the results. Copy a result folder with its times (`cp -p`, `rsync -a`, `tar`): otherwise
finished attacks may be carried out again, to the same numbers.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from cemlib.files import FileError, read_json, sha256
from cemlib.jobs import preparation
from cemlib.layout import KNOWLEDGES
from cemlib.plan import Plan
from cemlib.provenance import fingerprint
from cemlib.seal import FILES, check_files, read_sealed


def data_is_prepared(plan: Plan) -> bool:
    """Whether the prepared data are whole, and made with these settings and this code."""
    facts, tensors = _record(plan.layout.prepared_facts), plan.layout.prepared
    made_by = facts.get("source", {}).get("preparation")
    return made_by == preparation(plan) and tensors.is_file() and facts["sha256"] == sha256(tensors)


def is_trained(plan: Plan, defence: str, seed: int) -> bool:
    """Whether a run is finished; the data must be prepared."""
    folder = plan.folder(defence, seed)
    record, data = _record(folder.metrics), _record(plan.layout.prepared_facts)
    return (
        _are_whole(folder.metrics, folder.files())
        and record.get("data_sha256") == data["sha256"]
        and _agrees(record, plan.study.train_slice(defence), plan.train_sources(defence))
    )


def is_attacked(plan: Plan, defence: str, seed: int, attack: str) -> bool:
    """Whether an attack is finished, with every knowledge; what it reads must be finished."""
    run = plan.layout.run(defence, seed)
    settings = plan.study.attack_slice(defence, attack)
    sources = plan.attack_sources(defence, attack)
    folders = [run.attack(attack, knowledge) for knowledge in KNOWLEDGES]
    metrics = [folder.metrics for folder in folders]
    return (
        all(_are_whole(folder.metrics, folder.files()) for folder in folders)
        and all(_agrees(_record(path), settings, sources) for path in metrics)
        and came_after(metrics, plan.attacked_files(run, attack))
    )


def came_after(written: Sequence[Path], read: Sequence[Path]) -> bool:
    """Whether all these files are there, and none that was written is older than one read."""
    if not _all_there([*written, *read]):
        return False
    return min(map(_time, written)) >= max(map(_time, read))


def _agrees(record: dict[str, Any], settings: dict[str, Any], sources: Iterable[Path]) -> bool:
    code = record.get("provenance", {}).get("fingerprint")
    return record.get("config") == settings and code == fingerprint(sources)


def _record(path: Path) -> dict[str, Any]:
    """Content of a JSON file; nothing where it is missing or damaged, so that it is made again."""
    try:
        found = read_json(path)
    except FileError:
        return {}
    return found if isinstance(found, dict) else {}


def _are_whole(record: Path, files: Sequence[Path]) -> bool:
    """Whether these files, and those that the record names, are there and as they were written."""
    try:
        found = read_sealed(record)
        named = [record.with_name(name) for name in found.get(FILES, {})]
        check_files(record, found, named)
    except FileError:
        return False
    return _all_there([*files, *named])


def _all_there(paths: Iterable[Path]) -> bool:
    return all(path.is_file() for path in paths)


def _time(path: Path) -> int:
    return path.stat().st_mtime_ns
