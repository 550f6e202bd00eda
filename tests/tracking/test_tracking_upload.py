"""Uploads of a synthetic result folder into a real SQLite store, read back by MLflow's client."""

from pathlib import Path

import pytest
from toy_study import Store, Study, curve

from cemlib.records.files import write_jsonl


def test_a_study_is_one_experiment_of_runs_with_nested_attacks(study: Study, store: Store) -> None:
    study.add_run("none", 0)
    study.add_attack("gated", 1, "decoder")
    study.add_attack("gated", 1, "decoder", knowledge="public_data")
    summary = study.track()
    assert (summary.uploaded, summary.unchanged, summary.unfinished) == (4, 0, 0)
    runs = store.runs()
    found = {f: (r.info.run_name, r.data.tags.get("mlflow.parentRunId")) for f, r in runs.items()}
    parent = runs["runs/gated/seed1"].info.run_id
    assert found == {
        "runs/none/seed0": ("none seed0", None),
        "runs/gated/seed1": ("gated seed1", None),
        "runs/gated/seed1/attacks/decoder-train_data": ("gated seed1 decoder train_data", parent),
        "runs/gated/seed1/attacks/decoder-public_data": ("gated seed1 decoder public_data", parent),
    }


def test_a_run_has_parameters_curves_scores_tags_and_files(study: Study, store: Store) -> None:
    folder = study.add_run("none", 0)
    study.track()
    run = store.runs()["runs/none/seed0"]
    assert run.data.params == {
        "defence": "none",
        "seed": "0",
        "train.epochs": "3",
        "train.lr": "0.05",
        "train.milestones": "[1, 2]",
        "defence.noise_std": "0.025",
        "defence.surrogate": "null",
        "defence.sparse_coding": "false",
    }
    assert store.points(run, "curve/train_loss") == [(1, 2.0), (2, 1.0), (3, 2 / 3)]
    assert store.points(run, "curve/val_top1") == [(1, 0.5), (2, 0.75), (3, 1 - 0.5 / 3)]
    assert store.points(run, "val_top1") == [(0, 0.91)]
    scores = {name: value for name, value in run.data.metrics.items() if "/" not in name}
    assert scores == {
        "top1": 0.9,
        "val_top1": 0.91,
        "chance_top1": 0.1,
        "leakage_nats": 12.5,
        "leakage_images": 640,
        "selected_epoch": 3,
        "epochs": 3,
        "parameters.client": 10,
        "parameters.server": 20,
        "wall_seconds": 1.5,
        "peak_memory_mb": 300,
    }
    tags = run.data.tags
    assert tags["mlflow.source.git.commit"] == tags["commit"] == "0123456789" * 4
    assert (tags["fingerprint"], tags["version.torch"]) == ("f" * 64, "2.15.0")
    assert (tags["kind"], tags["defence"], tags["seed"]) == ("run", "none", "0")
    assert run.info.status == "FINISHED"
    assert run.info.end_time - run.info.start_time == 1500
    assert run.info.end_time == folder.metrics.stat().st_mtime_ns // 10**6
    assert store.files(run) == {"metrics.json", "history.jsonl", "config.json"}


def test_an_attack_shows_its_scores_and_pictures(study: Study, store: Store) -> None:
    folder = study.add_attack("none", 0, "decoder")
    study.track()
    run = store.runs()["runs/none/seed0/attacks/decoder-train_data"]
    expected = {
        "mse": 0.01,
        "psnr": 20,
        "psnr_of_mean_mse": 19.5,
        "ssim": 0.5,
        "ssim_valid": 0.5,
        "identified": 0.3,
        "n_images": 200,
        "queries": 1,
        "wall_seconds": 2.5,
        "peak_memory_mb": 320,
    }
    expected |= {"top1": 0.9, "leakage_nats": 12.5}  # of the attacked run
    assert {n: v for n, v in run.data.metrics.items() if "/" not in n} == expected
    assert store.points(run, "curve/train_mse") == [(1, 0.1)]
    tags = run.data.tags
    assert (tags["attack"], tags["knowledge"], tags["kind"]) == ("decoder", "train_data", "attack")
    assert store.files(run) >= {"reconstructions.png", "per_image.parquet", "metrics.json"}
    picture = store.client.download_artifacts(run.info.run_id, "reconstructions.png")
    assert Path(picture).read_bytes() == folder.reconstructions.read_bytes()
    assert "mlflow.note.content" not in tags


def test_files_go_to_an_absolute_place_beside_the_store(
    study: Study, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study.add_run("none", 0)
    monkeypatch.chdir(tmp_path)
    study.uri = "sqlite:///mlflow.db"
    study.track()
    place = tmp_path / "mlartifacts" / "toy"
    assert store.experiment().artifact_location == place.as_uri()
    assert len(list(place.glob("*/artifacts/metrics.json"))) == 1


def test_what_changed_takes_the_place_of_the_older(study: Study, store: Store) -> None:
    """An attack alone, a run with its attacks; somebody's own run in the experiment stays."""
    run, other = "runs/none/seed0", "runs/none/seed1"
    for seed in (0, 1):
        study.add_run("none", seed)
    for attack in ("linear", "decoder"):
        study.add_attack("none", 0, attack)
    study.track()
    before = store.runs()
    tags = {"mlflow.parentRunId": before[run].info.run_id}
    own = store.client.create_run(store.experiment().experiment_id, tags=tags, run_name="my note")

    changed = f"{run}/attacks/decoder-train_data"
    study.add_attack("none", 0, "decoder", mse=0.02)
    assert study.track().uploaded == 1
    after = store.runs()
    assert after[changed].data.metrics["mse"] == 0.02
    assert {f for f in after if after[f].info.run_id != before[f].info.run_id} == {changed}
    old = store.client.get_run(before[changed].info.run_id)
    assert old.info.lifecycle_stage == "deleted"

    study.add_run("none", 0, top1=0.8)
    assert study.track().uploaded == 3
    after = store.runs()
    assert after[run].data.metrics["top1"] == 0.8
    assert after[changed].data.tags["mlflow.parentRunId"] == after[run].info.run_id
    assert after[other].info.run_id == before[other].info.run_id
    assert store.client.get_run(own.info.run_id).info.lifecycle_stage == "active"


def test_an_attack_that_must_be_made_again_leaves_no_run_of_the_old_one(
    study: Study, store: Store
) -> None:
    """And a run that was deleted in MLflow comes back with its attacks."""
    run, attack = "runs/none/seed0", "runs/none/seed0/attacks/decoder-train_data"
    made = study.add_attack("none", 0, "decoder")
    study.track()
    store.client.delete_run(store.runs()[run].info.run_id)
    study.track()
    runs = store.runs()
    assert runs[attack].data.tags["mlflow.parentRunId"] == runs[run].info.run_id
    study.add_run("none", 0, top1=0.8)
    made.metrics.unlink()
    assert study.track().unfinished == 1
    assert set(store.runs()) == {run}


def test_a_failed_run_with_its_reason_and_an_unbounded_score(study: Study, store: Store) -> None:
    reason = "epoch 2: train_loss is nan; a lower lr may help"
    study.add_run("gated", 0, status="failed", reason=reason)
    study.add_attack("gated", 0, "decoder", status="failed", reason="the run failed")
    study.add_run("none", 0, leakage_nats=None)
    study.track()
    runs = store.runs()
    unbounded = runs.pop("runs/none/seed0").data
    assert "leakage_nats" not in unbounded.metrics
    assert unbounded.tags["leakage_nats"] == "unbounded"
    for run in runs.values():
        assert run.info.status == "FAILED"
        assert run.data.metrics.keys().isdisjoint({"top1", "leakage_nats", "mse", "ssim"})
        assert run.data.tags["status"] == "failed"
    run = runs["runs/gated/seed0"]
    assert run.data.tags["reason"] == reason
    assert run.data.tags["mlflow.note.content"] == f"Failed: {reason}"


@pytest.mark.parametrize("missing", ["the end", "the digest"])
def test_a_half_uploaded_run_is_done_again(study: Study, store: Store, missing: str) -> None:
    study.add_run("none", 0)
    study.track()
    whole = store.runs()["runs/none/seed0"]
    experiment = store.experiment().experiment_id
    client, tags = store.client, dict(whole.data.tags)
    if missing == "the digest":
        del tags["cemlib.sha256"]
    half = client.create_run(experiment, tags=tags).info.run_id
    client.log_metric(half, "curve/train_loss", 2.0, step=1)
    client.log_param(half, "train.lr", "7")
    if missing == "the digest":
        client.set_terminated(half)
    client.delete_run(whole.info.run_id)
    assert study.track().uploaded == 1
    repaired = store.runs()["runs/none/seed0"]
    assert repaired.data.params["train.lr"] == "0.05"
    assert store.points(repaired, "curve/train_loss") == [(1, 2.0), (2, 1.0), (3, 2 / 3)]


def test_tables_and_figures_are_one_run(study: Study, store: Store) -> None:
    study.add_report()
    study.track()
    first = store.runs()["report"]
    assert store.files(first, "tables") == {"tables/summary.md", "tables/summary.csv"}
    expected = {"none.top1_mean": 0.9, "none.top1_ci_low": 0.8, "none.top1_ci_high": 1}
    for name, values in {"mse": (0.03, 0.02, 0.04), "ssim": (0.5, 0.4, 0.6)}.items():
        parts = zip(("mean", "ci_low", "ci_high"), values, strict=True)
        expected |= {f"none.train_data.{name}_{part}": value for part, value in parts}
    assert first.data.metrics == expected | {"none.train_data.identified_mean": 0.7}
    assert store.files(first, "figures") == {"figures/privacy.png"}
    assert "| none | .01 |" in first.data.tags["mlflow.note.content"]
    study.add_report("| new | .02 |")
    study.track()
    second = store.runs()["report"]
    assert second.info.run_id != first.info.run_id
    assert "| new | .02 |" in second.data.tags["mlflow.note.content"]


def test_what_mlflow_does_not_take_is_made_to_fit(study: Study, store: Store) -> None:
    """Curves and parameters beyond one call, odd names, and a table too long for a description."""
    many = {f"key{n}": n for n in range(250)} | {"long": "x" * 7000}
    folder = study.add_run("none", 0, config=many)
    write_jsonl(folder.history, [*curve(700), {"epoch": 701, "surrogate/share(c=1)": 0.5}])
    study.add_report("x" * 9000)
    study.track()
    run = store.runs()["runs/none/seed0"]
    expected = [(n, 2.0 / n) for n in range(1, 701)]
    assert sorted(store.points(run, "curve/train_loss")) == expected
    assert store.points(run, "curve/surrogate/share_c_1_") == [(701, 0.5)]
    assert {int(run.data.params[f"key{n}"]) for n in range(250)} == set(range(250))
    assert run.data.params["long"] == "x" * 6000
    described = store.runs()["report"].data.tags["mlflow.note.content"]
    assert "*Artifacts*" in described
    assert "xxx" not in described
