"""Training runs: what decides their bits, what is selected, and how a diverging one ends."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from result_files import timeless
from tiny_study import CPU, bare_trainer, blob_data, same_weights, trained
from torch.nn import functional as F

from cemlib.defences.deployed import load_deployed
from cemlib.numerics.leakage import leakage_estimate
from cemlib.numerics.seeds import generator
from cemlib.records.files import read_json, read_jsonl
from cemlib.records.layout import RunFolder
from cemlib.surrogates import SURROGATES
from cemlib.training.selection import SCORES


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    # `gated`, the last surrogate to act, starts at the sixth epoch.
    return trained(tmp_path_factory.mktemp("plain"), "noise", epochs=7)


@pytest.mark.parametrize("surrogate", SURROGATES)
def test_a_surrogate_shifts_no_random_stream(
    plain: RunFolder, tmp_path: Path, surrogate: str
) -> None:
    assert same_weights(plain, trained(tmp_path, f"{surrogate}_off", epochs=7))
    off = read_jsonl(tmp_path / f"tiny/runs/{surrogate}_off/seed0/history.jsonl")
    for row, other in zip(timeless(read_jsonl(plain.history)), off, strict=True):
        assert {name: other[name] for name in row} == row


@pytest.mark.parametrize("surrogate", SURROGATES)
def test_an_epochs_row_says_what_the_surrogate_did(tmp_path: Path, surrogate: str) -> None:
    folder = trained(tmp_path, surrogate, epochs=7)
    rows = read_jsonl(folder.history)
    start = SURROGATES[surrogate].start_epoch
    assert [row["lambda_eff"] > 0 for row in rows] == [n >= start for n in range(1, 8)]
    for row in rows:
        counted = {k: row.get(f"surrogate/{k}") for k in ("steps", "idle_steps", "active_steps")}
        if row["lambda_eff"] == 0:
            assert set(counted.values()) == {None}
            assert row["surrogate/gradient_ratio"] is None
        else:
            assert counted == {"steps": 3, "idle_steps": 0, "active_steps": 1}
            assert row["surrogate/value"] == pytest.approx(row["surrogate"], rel=0.1)
            assert row["surrogate/gradient_ratio"] > 0
    deployed, val = load_deployed(folder, torch.device("cpu")), blob_data().val
    bound = leakage_estimate(deployed.features(val.images).flatten(1), val.labels, 0.025)
    assert rows[-1]["val_leakage_nats"] == pytest.approx(bound, rel=1e-5)


def test_an_epoch_before_the_surrogate_acts_is_not_deployed(tmp_path: Path) -> None:
    """Weights that no defence has touched must not pass for defended ones."""
    folder = trained(tmp_path, "gated", epochs=7, select="best_val", lr=0.0001)
    scores = [row["val_top1"] for row in read_jsonl(folder.history)]
    assert max(scores[:5]) >= max(scores[5:])  # of equal ones the first would be
    assert read_json(folder.metrics)["selected_epoch"] >= 6


def test_a_constant_lambda_acts_from_the_first_epoch_of_its_surrogate_on(tmp_path: Path) -> None:
    rates = read_jsonl(trained(tmp_path, "unscaled", epochs=3).history)
    assert [row["lambda_eff"] for row in rates] == [0, 16, 16]


def test_the_history_reports_the_validation_split() -> None:
    subject = bare_trainer(epochs=2)
    row = subject.epoch(1)
    val = subject.data.val
    model = subject.deployed.model.eval()
    with torch.no_grad():
        features = model.encoder(val.images.float() / 255)
        noise = torch.randn(features.shape, generator=generator(0, "val_noise", 1))
        logits = model.head(features + 0.025 * noise)
    assert row["val_top1"] == pytest.approx((logits.argmax(1) == val.labels).float().mean().item())
    assert row["val_loss"] == pytest.approx(F.cross_entropy(logits, val.labels).item(), rel=1e-5)


SWINGING: dict[str, Any] = {"lr": 0.3, "milestones": []}  # a rate at which scores rise and fall


@pytest.mark.parametrize(
    ("select", "score"), [("best_val", "val_top1"), ("best_test", "test_top1")]
)
def test_the_best_epoch_is_deployed(tmp_path: Path, select: str, score: str) -> None:
    """Of so many epochs that the last is not the best.

    The test images are scored during the training only where they select.
    """
    longer = trained(tmp_path / "longer", "noise", select=select, epochs=8, **SWINGING)
    rows = read_jsonl(longer.history)
    assert any("test" in key for row in rows for key in row) == (select == "best_test")
    scores = [row[score] for row in rows]
    epochs = next(n for n in range(2, 9) if scores[n - 1] <= max(scores[: n - 1]))
    best = 1 + scores.index(max(scores[:epochs]))
    folder = trained(tmp_path / "chosen", "noise", select=select, epochs=epochs, **SWINGING)
    metrics = read_json(folder.metrics)
    assert (metrics["selected_epoch"], metrics["selected_on"]) == (best, select)
    assert same_weights(folder, trained(tmp_path / "stopped", "noise", epochs=best, **SWINGING))


def test_metrics_are_the_scores_of_the_deployed_model_of_the_last_epoch(plain: RunFolder) -> None:
    metrics, test = read_json(plain.metrics), blob_data().test
    model = load_deployed(plain, CPU).model
    with torch.no_grad():
        features = model.encoder(test.images.float() / 255)
        noise = torch.randn(features.shape, generator=generator(0, "test_noise"))
        right = model.head(features + 0.025 * noise).argmax(1) == test.labels
    assert metrics["top1"] == pytest.approx(right.float().mean().item())
    assert (metrics["status"], metrics["reason"]) == ("ok", None)
    assert (metrics["selected_epoch"], metrics["selected_on"]) == (7, "last")
    client, server = (
        sum(w.numel() for w in part.parameters()) for part in (model.encoder, model.head)
    )
    assert metrics["parameters"] == {"client": client, "server": server}


def test_without_noise_no_bound_on_the_leakage_exists(plain: RunFolder, tmp_path: Path) -> None:
    assert read_json(trained(tmp_path, "none", epochs=1).metrics)["leakage_nats"] is None
    assert read_json(plain.metrics)["leakage_nats"] > 0


@pytest.mark.parametrize("most", [1, 20, 30, 2048])
def test_the_leakage_is_estimated_from_training_images_too_where_test_images_are_few(
    monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr("cemlib.training.selection.MOST", most)
    subject = bare_trainer()
    train, test = subject.data.train, subject.data.test
    count = min(max(len(test), 3 * min(most, 128)), len(test) + len(train))
    found = subject.selection.final_scores()
    assert found["leakage_images"] == count
    assert found["chance_top1"] == max(map(test.labels.tolist().count, range(3))) / len(test)
    images = torch.cat([test.images, train.images])[:count]
    labels = torch.cat([test.labels, train.labels])[:count]
    features = subject.deployed.features(images).flatten(1)
    assert found["leakage_nats"] == pytest.approx(leakage_estimate(features, labels, 0.025))


def test_the_fit_sees_clean_features_in_eval_mode() -> None:
    subject = bare_trainer("clustering", noise_std=5.0)
    subject.epoch(1)
    model, train = subject.deployed.model.eval(), subject.data.train
    with torch.no_grad():
        features = model.encoder(train.images.float() / 255).flatten(1)
    means, weights = subject.surrogate.means, subject.surrogate.weights
    for label in range(3):
        centre = (weights[label, :, None] * means[label]).sum(0)
        assert torch.allclose(centre, features[train.labels == label].mean(0), atol=1e-5)


@pytest.mark.parametrize("defence", ["noise", "clustering"])
@pytest.mark.parametrize(
    ("batch_size", "reason"),
    [
        (32, r"epoch 1, batch \d+: a feature is not finite"),
        # The loss before an epoch's only step is a number; the weights after it are not.
        (128, "epoch 1: "),
    ],
)
def test_a_diverging_run_is_finished_and_failed(
    tmp_path: Path, defence: str, batch_size: int, reason: str
) -> None:
    folder = trained(tmp_path, defence, lr=1e30, epochs=4, batch_size=batch_size)
    metrics = read_json(folder.metrics)
    assert metrics["status"] == "failed"
    assert re.match(reason, metrics["reason"])
    assert {metrics[name] for name in (*SCORES, "selected_epoch")} == {None}
    assert all(file.is_file() for file in folder.files())
    assert len(read_jsonl(folder.history)) < 4
