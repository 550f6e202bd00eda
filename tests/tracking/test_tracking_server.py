"""Uploads to a real MLflow server on loopback."""

import re

from toy_study import Store, Study, fetch

ATTACK = "runs/none/seed0/attacks/decoder-train_data"


def test_a_server_holds_each_result_once(study: Study, server: str) -> None:
    study.uri, store = server, Store(server)
    study.add_run("none", 0)
    folder = study.add_attack("none", 0, "decoder")
    study.add_report()
    assert study.track().uploaded == 3
    before = {name: run.info.run_id for name, run in store.runs().items()}
    assert study.track().unchanged == 3
    runs = store.runs()
    assert {name: run.info.run_id for name, run in runs.items()} == before
    assert store.points(runs["runs/none/seed0"], "curve/train_loss")[-1] == (3, 2 / 3)
    assert store.files(runs["report"], "figures") == {"figures/privacy.png"}
    note = runs[ATTACK].data.tags["mlflow.note.content"]
    assert _picture(server, note) == folder.reconstructions.read_bytes()


def _picture(server: str, note: str) -> bytes:
    """The picture that a description shows, fetched as a browser on the run's page fetches it."""
    link = re.search(r"!\[\w+\]\((\S+)\)", note)
    assert link is not None, note
    with fetch(f"{server}/{link[1]}") as answer:
        content: bytes = answer.read()
    return content
