"""Uploads to a real MLflow server on loopback."""

from toy_study import Store, Study

ATTACK = "runs/none/seed0/attacks/decoder-train_data"


def test_a_server_holds_each_result_once(study: Study, server: str) -> None:
    study.uri, store = server, Store(server)
    study.add_run("none", 0)
    study.add_attack("none", 0, "decoder")
    study.add_report()
    assert study.track().uploaded == 3
    before = {name: run.info.run_id for name, run in store.runs().items()}
    assert study.track().unchanged == 3
    runs = store.runs()
    assert {name: run.info.run_id for name, run in runs.items()} == before
    assert store.points(runs["runs/none/seed0"], "curve/train_loss")[-1] == (3, 2 / 3)
    assert store.files(runs["report"], "figures") == {"figures/privacy.png"}
    assert "reconstructions.png" in store.files(runs[ATTACK])
