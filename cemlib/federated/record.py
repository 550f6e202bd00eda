"""Find the variant and the run of a job of a federated study, and write its record."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cemlib.config.federated import Variant
from cemlib.data.prepared import checksum
from cemlib.records.layout import RunFolder
from cemlib.records.seal import RECORD, write_sealed
from cemlib.study.federated import FederatedJob


def variant_of(job: FederatedJob) -> Variant:
    """Return the settings of a job's variant."""
    return job.plan.study.variants[job.of["variant"]]


def run_of(job: FederatedJob) -> RunFolder:
    """Return the folder of the training that a job is, or attacks."""
    return job.plan.layout.run(job.of["variant"], job.of["seed"])


def write_record(
    job: FederatedJob, kind: str, reason: str | None, found: dict[str, Any], files: Iterable[Path]
) -> None:
    """Write the record of a job, after its other files.

    Args:
        job: The job.
        kind: of the record.
        reason: why the job failed, or None.
        found: scores, and whatever else the record has.
        files: all files of the result; the one named metrics.json is the record.
    """
    record = {
        "kind": kind,
        "defence": job.of.get("variant", "pseudo"),
        "seed": job.of["seed"],
        "command": job.command,
        **found,
        "data_sha256": checksum(job.plan.layout.data),
        **job.record(reason),
    }
    (metrics,) = (file for file in files if file.name == RECORD)
    write_sealed(metrics, record, [file for file in files if file != metrics])
