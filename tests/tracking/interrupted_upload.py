"""An upload in a thread of its own, for tests that end the server in the middle of it."""

import threading

from toy_study import Store, Study

from cemlib.tracking import TrackingError


class Upload(threading.Thread):
    """An upload beside the test, and the error that ends it."""

    def __init__(self, study: Study) -> None:
        super().__init__(daemon=True)
        self.study, self.error = study, ""

    def run(self) -> None:
        try:
            self.study.track()
        except TrackingError as error:
            self.error = str(error)


def finished(store: Store) -> int:
    """Finished runs, whatever else is there: a doubled one would be counted twice."""
    if store.experiment() is None:
        return 0
    found = store.client.search_runs([store.experiment().experiment_id])
    return sum(run.info.status == "FINISHED" for run in found)


def wait_until_some_are_finished(store: Store, upload: Upload) -> None:
    while finished(store) < 3:
        assert upload.is_alive(), upload.error
