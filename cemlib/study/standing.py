"""The status of results by their records; a diverged result is finished, and has no number."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from cemlib.records.files import FileError
from cemlib.records.seal import RECORD, read_sealed
from cemlib.study.job import AnyJob

FINISHED, FAILED, DAMAGED, ABSENT, STALE = "finished", "failed", "damaged", "absent", "stale"


def read_standing(record: Path) -> tuple[str, str, dict[str, Any]]:
    """Return the status of a result by its record alone, a note, and the record's content.

    The status is `finished`, `failed` (diverged; the note says why), `damaged` (not as it was
    written) or `absent`. The content of the last two is empty.
    """
    if not record.is_file():
        return ABSENT, "", {}
    try:
        found = read_sealed(record, ("status", "reason"))
    except FileError as error:
        return DAMAGED, str(error), {}
    if found["status"] == "ok":
        return FINISHED, "", found
    return FAILED, str(found["reason"]), found


def failure(root: Path, written: Path | str) -> Iterator[str]:
    """Yield a line if a job of the study in `root` has written the record of a failed result."""
    if not isinstance(written, Path) or written.name != RECORD:
        return
    status, reason, found = read_standing(written)
    if status == FAILED:
        yield f"failed: {_title(written.relative_to(root), found)}: {reason}"


def failed_results(root: Path, jobs: Sequence[AnyJob]) -> Iterator[str]:
    """Yield a line for each failed result that the study in `root` has so far.

    Jobs that need a failed one are left out, since they fail with it.

    Raises:
        FileError: if a result is damaged.
    """
    failed = set[str]()
    for job in jobs:
        for record in (path for path in job.records if path.name == RECORD):
            status, reason, _ = read_standing(record)
            if status == DAMAGED:
                raise FileError(reason)
            if not job.needs & failed:
                yield from failure(root, record)
            failed |= {job.name} if status == FAILED else set()


def _title(record: Path, found: dict[str, Any]) -> str:
    """Return the name of a result: `wild seed0`, or `linear train_data on wild seed0`."""
    of_attack = f"{found['attack']} {found['knowledge']} on " if "attack" in found else ""
    run = record.parents[2] if of_attack else record.parent
    return of_attack + " ".join(run.parts).removeprefix("runs ")
