"""Curves of jobs under way: they grow, become whole runs, and are begun anew with the job."""

import threading

import pytest
from toy_study import Store, Study, curve, until

from cemlib.records.files import write_jsonl
from cemlib.records.layout import Layout, RunFolder
from cemlib.tracking import Summary

RUN = "runs/gated/seed0"


class Job:
    """A training that has reached some epoch, seen by one round of `watch` at a time."""

    def __init__(self, study: Study) -> None:
        self.study = study
        self.folder: RunFolder = study.expect_run(Layout(study.root).run("gated", 0))

    def reach(self, epoch: int, **changes: float) -> None:
        write_jsonl(self.folder.history, [row | changes for row in curve(epoch)])

    def look(self) -> Summary:
        return self.study.files().track(self.study.uri, live=True)


@pytest.fixture
def job(study: Study) -> Job:
    return Job(study)


def test_curves_grow_in_one_run_until_its_job_has_finished(job: Job, store: Store) -> None:
    """Through a resumption, after which epochs took other seconds, and an interrupted upload.

    The interruption falls between the points of epoch 2 and the note that they are there.
    """
    job.reach(1)
    assert job.look().unfinished == 1
    first = store.runs()[RUN]
    assert first.info.status == "RUNNING"
    assert first.data.tags["status"] == "running"
    assert first.data.tags["mlflow.note.content"].startswith("Under way")
    job.reach(2, seconds=0.7)
    job.look()
    assert store.points(first, "curve/train_loss") == [(1, 2.0), (2, 1.0)]
    assert store.points(first, "curve/seconds") == [(1, 0.5), (2, 0.7)]
    store.client.set_tag(first.info.run_id, "cemlib.shown", first.data.tags["cemlib.shown"])
    job.reach(3, seconds=0.7)
    job.look()
    job.look()
    assert store.points(first, "curve/train_loss") == [(1, 2.0), (2, 1.0), (3, 2 / 3)]
    job.study.add_run("gated", 0)
    assert job.study.track().uploaded == 1
    whole = store.runs()[RUN]
    assert whole.info.run_id == first.info.run_id
    assert whole.info.status == "FINISHED"
    assert whole.data.tags["status"] == "ok"
    assert whole.data.tags.keys().isdisjoint({"cemlib.shown", "mlflow.note.content"})
    assert whole.data.metrics["top1"] == 0.9
    assert store.points(whole, "curve/train_loss") == [(1, 2.0), (2, 1.0), (3, 2 / 3)]
    assert job.study.track().unchanged == 1


def test_a_description_that_somebody_removed_does_not_stop_an_upload(
    job: Job, store: Store
) -> None:
    job.reach(1)
    job.look()
    store.client.delete_tag(store.runs()[RUN].info.run_id, "mlflow.note.content")
    job.study.add_run("gated", 0)
    assert job.study.track().uploaded == 1
    assert store.runs()[RUN].info.status == "FINISHED"


def test_a_job_begun_anew_is_another_run(job: Job, store: Store) -> None:
    job.reach(3)
    job.look()
    first = store.runs()[RUN]
    job.reach(1, train_loss=7.0)
    job.look()
    second = store.runs()[RUN]
    assert second.info.run_id != first.info.run_id
    assert store.points(second, "curve/train_loss") == [(1, 7.0)]


def test_a_job_done_again_leaves_the_finished_run_until_it_has_finished(
    job: Job, store: Store
) -> None:
    folder = job.study.add_run("gated", 0)
    job.study.track()
    finished = store.runs()[RUN]
    folder.metrics.unlink()
    job.reach(1, train_loss=7.0)
    job.look()
    experiment = store.experiment().experiment_id
    states = {run.info.run_id: run.info.status for run in store.client.search_runs([experiment])}
    assert states.pop(finished.info.run_id) == "FINISHED"
    assert list(states.values()) == ["RUNNING"]
    job.study.add_run("gated", 0, top1=0.8)
    job.study.track()
    assert store.runs()[RUN].data.metrics["top1"] == 0.8


def test_watch_ends_when_every_expected_result_is_there(study: Study, store: Store) -> None:
    folder = study.expect_run(Layout(study.root).run("none", 0))
    ended: list[Summary] = []

    def shown() -> int:
        run = store.experiment() and store.runs().get("runs/none/seed0")
        return len(store.points(run, "curve/train_loss")) if run else 0

    def follow() -> None:
        ended.append(study.files().watch(study.uri, interval=0.05))

    watcher = threading.Thread(target=follow, daemon=True)
    watcher.start()
    for epoch in (1, 2, 3):
        write_jsonl(folder.history, curve(epoch))
        until(lambda epoch=epoch: shown() == epoch)
    assert not ended
    study.add_run("none", 0)
    watcher.join(30)
    assert [summary.unfinished for summary in ended] == [0]
    assert store.runs()["runs/none/seed0"].info.status == "FINISHED"
