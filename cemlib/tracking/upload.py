"""Bring the runs of one MLflow experiment up to date with results, each once and complete."""

import hashlib
import json
import math
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from mlflow.entities import Metric, Param, Run, RunTag

from cemlib.records.files import write_bytes
from cemlib.tracking.notes import LONGEST
from cemlib.tracking.numbers import Epoch
from cemlib.tracking.results import RUNNING, WORST, Result
from cemlib.tracking.store import AGAIN, NOTE, Store, TrackingError

FOLDER = "cemlib.folder"  # tag: the folder of a run's result
DIGEST = "cemlib.sha256"  # tag: its digest, valid once the run is not RUNNING
SHOWN = "cemlib.shown"  # tag of a job under way: number and digest of the uploaded epochs
PARENT = "mlflow.parentRunId"
SOURCE = {"mlflow.source.name": "cemlib", "mlflow.source.type": "LOCAL"}
LONGEST_PARAM = 6000  # MLflow's limit, in characters
# How the upload of a result ended; unfinished: its job, or that of the attacked run, goes on.
Outcome = Literal["uploaded", "unchanged", "unfinished"]


@dataclass(frozen=True)
class Known:
    """A run that the store holds."""

    run_id: str
    start: int
    parent: str | None
    digest: str | None = None  # None for one that is under way or half-uploaded
    shown: str = ""
    worst: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, run: Run) -> "Known":
        """Read a run as MLflow returned it."""
        tags, info, metrics = run.data.tags, run.info, run.data.metrics
        worst = {n: v for n, v in metrics.items() if n.startswith(WORST) and math.isfinite(v)}
        return cls(
            info.run_id,
            info.start_time or 0,
            tags.get(PARENT),
            None if info.status == RUNNING else tags.get(DIGEST),
            tags.get(SHOWN, ""),
            worst,
        )

    @property
    def epochs(self) -> int:
        """Return the number of uploaded epochs of a job under way."""
        return int(self.shown.partition(":")[0] or 0)

    def is_begun(self, curves: Sequence[Epoch]) -> bool:
        """Return whether this is a job under way whose uploaded epochs are the first of curves."""
        return self.shown != "" and self.shown == _shown(curves[: self.epochs])


class Uploader:
    """Uploads results into one experiment, and replaces outdated ones.

    A new run is complete before the run that it replaces is deleted. So an interruption leaves the
    old one, or both, and the next upload puts that right.
    """

    def __init__(self, store: Store, experiment: str) -> None:
        self._store, self._client = store, store.client
        self._experiment = store.experiment(experiment)
        self._known: dict[str, list[Known]] = {}
        for run in self._all_runs():
            if folder := run.data.tags.get(FOLDER):  # other runs are the user's own
                self._known.setdefault(folder, []).append(Known.of(run))

    def put(self, result: Result) -> Outcome:
        """Upload a result in place of all others of its folder; put a run before its attacks."""
        attacked = self._known.get(result.parent, []) if result.parent else []
        parent = next((run.run_id for run in attacked if run.digest is not None), None)
        if result.parent and parent is None:
            return "unfinished"
        known = self._known.get(result.folder, [])
        for run in known:
            if run.digest == result.digest and run.parent == parent:
                self._keep_only(run, result)
                return self._renew_worst_case(run, result)
        begun = (run for run in known if run.is_begun(result.curves) and run.parent == parent)
        run = next(begun, None) or self._create(result, parent)
        self._keep_only(self._fill(run, result), result)
        return "unfinished" if result.status == RUNNING else "uploaded"

    def _all_runs(self) -> Iterator[Run]:
        token = None
        while token != "":
            page = self._client.search_runs([self._experiment], page_token=token)
            yield from page
            token = page.token or ""

    def _create(self, result: Result, parent: str | None) -> Known:
        tags = {**SOURCE, **_trimmed(result.tags), FOLDER: result.folder}
        tags |= {PARENT: parent} if parent else {}
        tags |= {NOTE: result.note} if result.status == RUNNING else {}
        run = self._client.create_run(self._experiment, result.start, tags, result.name)
        return Known(run.info.run_id, result.start, parent)

    def _fill(self, run: Known, result: Result) -> Known:
        """Bring a run up to date, and complete it if its job has finished."""
        if result.status == RUNNING:
            return self._extend(run, result)
        if run.shown:  # after an interruption from here on, the run is replaced, not continued
            self._client.delete_tag(run.run_id, SHOWN)
            if NOTE in self._client.get_run(run.run_id).data.tags:  # unless somebody removed it
                self._client.delete_tag(run.run_id, NOTE)
        self._add_artifacts(run, result)
        self._add_scores(run, result)
        self._extend(run, result)
        self._client.set_terminated(run.run_id, result.status, max(result.end, run.start))
        return replace(run, digest=result.digest, shown="")

    def _renew_worst_case(self, run: Known, result: Result) -> Outcome:
        """Update the worst case of a run, which changes when attacks on it end."""
        if run.worst == result.worst:
            return "unchanged"
        now, unknown = time.time_ns() // 10**6, dict.fromkeys(run.worst, math.nan)
        found = [Metric(name, value, now, 0) for name, value in {**unknown, **result.worst}.items()]
        self._client.log_batch(run.run_id, found)
        return "uploaded"

    def _extend(self, run: Known, result: Result) -> Known:
        """Add the epochs that a run lacks."""
        # Times are relative to the run's start, so that MLflow keeps a point once if sent twice.
        points = [
            Metric(name, value, run.start + row.time, row.step)
            for row in result.curves[run.epochs :]
            for name, value in row.values.items()
        ]
        self._client.log_batch(run.run_id, points)
        if result.status == RUNNING:
            run = replace(run, shown=_shown(result.curves))
            self._client.set_tag(run.run_id, SHOWN, run.shown)
        return run

    def _add_scores(self, run: Known, result: Result) -> None:
        """Add parameters, scores and tags; before the curves, as MLflow's page keeps this order."""
        params = [Param(name, value[:LONGEST_PARAM]) for name, value in result.params.items()]
        end = max(result.end, run.start)
        found = {**result.worst, **result.scores}
        scores = [Metric(name, value, end, 0) for name, value in found.items()]
        tags = _trimmed({**result.tags, NOTE: result.note, DIGEST: result.digest})
        self._client.log_batch(run.run_id, scores, params, [RunTag(*tag) for tag in tags.items()])

    def _add_artifacts(self, run: Known, result: Result) -> None:
        try:
            with tempfile.TemporaryDirectory() as folder:
                for name, content in result.artifacts.items():
                    write_bytes(Path(folder, name), content)
                self._client.log_artifacts(run.run_id, folder)
        except OSError as error:  # from the disk, or the connection to the server
            raise TrackingError(
                f"{self._store.address}: cannot store files there ({error}); {AGAIN}"
            ) from error

    def _keep_only(self, kept: Known, result: Result) -> None:
        """Delete the runs that `kept` replaces; a job under way replaces no finished run yet."""
        others = [run for run in self._known.get(result.folder, []) if run.run_id != kept.run_id]
        stay = [run for run in others if result.status == RUNNING and run.digest is not None]
        for run in others:
            if run not in stay:
                self._delete(run)
        self._known[result.folder] = [kept, *stay]

    def _delete(self, run: Known) -> None:
        """Delete a run, and the runs of the attacks on it."""
        for folder, runs in self._known.items():
            for child in [other for other in runs if other.parent == run.run_id]:
                self._client.delete_run(child.run_id)
                self._known[folder].remove(child)
        self._client.delete_run(run.run_id)


def _shown(curves: Sequence[Epoch]) -> str:
    """Return number and digest of epochs, without the seconds, which a resumed job changes."""
    rows = [
        [row.step, {k: v for k, v in row.values.items() if k != "curve/seconds"}] for row in curves
    ]
    return f"{len(rows)}:{hashlib.sha256(json.dumps(rows).encode()).hexdigest()}"


def _trimmed(tags: Mapping[str, str]) -> dict[str, str]:
    return {name: value[:LONGEST] for name, value in tags.items() if value}
