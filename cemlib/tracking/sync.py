"""Upload an experiment's result folder once, or every few seconds while jobs run."""

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from cemlib.records.layout import run_of
from cemlib.tracking.results import RUNNING, Result, read_report, read_result
from cemlib.tracking.store import open_store


@dataclass(frozen=True)
class Summary:
    """The numbers of results (runs, attacks, and one report) of an upload."""

    experiment: str
    store: str
    uploaded: int  # new or changed results that the store now holds
    unchanged: int  # results that it held already
    unfinished: int  # runs and attacks that are absent, under way, or not the study's as it is now

    def __str__(self) -> str:
        counts = f"{self.uploaded} uploaded, {self.unchanged} unchanged"
        rest = f", {self.unfinished} not finished" if self.unfinished else ""
        return f"experiment {self.experiment!r}: {counts}{rest}; store {self.store}"


@dataclass(frozen=True)
class Upload:
    """The files that an experiment has, or will have, and their upload to an MLflow store.

    Attributes:
        root: Result folder of the experiment.
        experiment: Its name in MLflow.
        records: `metrics.json` of every run and attack of the study, a run's before those of the
            attacks on it; those that do not exist are counted as unfinished.
        report_files: Tables and figures; they need not exist.
        belonging: Called before each upload; returns those of all these files that belong to the
            study as it is now. The others count as unfinished.
    """

    root: Path
    experiment: str
    records: Sequence[Path]
    report_files: Sequence[Path]
    belonging: Callable[[], Collection[Path]]

    def track(self, uri: str, *, live: bool = False) -> Summary:
        """Upload every finished result that the store at `uri` lacks (see `open_store`).

        With `live`, jobs under way are uploaded too, as runs with the status `RUNNING`, which later
        uploads extend and complete.

        Raises:
            TrackingError: if the store cannot be used.
            FileError: if a result file is damaged.
        """
        with open_store(uri) as store:
            from cemlib.tracking.upload import Uploader  # imports MLflow, set up by now

            done = {"uploaded": 0, "unchanged": 0, "unfinished": 0}
            uploader = Uploader(store, self.experiment)
            for result in self._results():
                if result is None or (result.status == RUNNING and not live):
                    done["unfinished"] += 1
                else:
                    done[uploader.put(result)] += 1
            return Summary(self.experiment, store.address, **done)

    def watch(self, uri: str, interval: float = 5.0) -> Summary:
        """Upload every `interval` seconds until runs and attacks end; return the last summary.

        A report that is written later needs another upload.
        """
        while (summary := self.track(uri, live=True)).unfinished:
            time.sleep(interval)
        return summary

    def _results(self) -> Iterator[Result | None]:
        """Yield each run and the attacks on it, then the report; None for missing or stale ones."""
        from cemlib.tracking.worst_case import with_summary, with_worst_case  # needs pandas

        ours = self.belonging()

        def read(metrics: Path) -> Result | None:
            return read_result(self.root, metrics) if metrics in ours else None

        by_run = defaultdict[Path, list[Path]](list)
        for metrics in self.records:
            by_run[run_of(metrics.parent)].append(metrics)
        for of_run in by_run.values():
            run, *on_it = map(read, of_run)
            yield run and with_worst_case(run, on_it)
            yield from on_it
        report_files = [file for file in self.report_files if file in ours]
        report = read_report(self.root, self.experiment, report_files)
        if report is not None:
            yield with_summary(report)
