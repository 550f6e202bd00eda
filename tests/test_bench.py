"""The benchmark at a small size: every figure is there, and they fit together."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import cemlib.bench
from cemlib.bench import VARIANTS, Scale, bench, table
from cemlib.cli import main
from cemlib.surrogates import SURROGATES


@pytest.fixture(scope="module")
def figures() -> Iterator[dict]:
    """Figures of all but the full covariance, which needs a fit to be timed at all."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delitem(cemlib.bench.VARIANTS, "gmm, full covariance")
        yield bench(Scale(batch=16, samples=400, repeats=1))


def test_every_surrogate_is_measured(figures: dict) -> None:
    assert set(figures["surrogates"]) == set(VARIANTS) >= set(SURROGATES)
    assert all(found["milliseconds"] > 0 for found in figures["surrogates"].values())
    assert set(figures["fits"]) == {name for name in SURROGATES if SURROGATES[name].fits}


def test_shares_are_of_the_step_and_of_the_epoch(figures: dict) -> None:
    step = figures["train_step"]["milliseconds"]
    for found in figures["surrogates"].values():
        assert found["share_of_step"] == pytest.approx(found["milliseconds"] / step)
        assert found["fastest"] <= found["milliseconds"] <= found["slowest"]
    epoch = figures["train_step"]["epoch_seconds"]
    assert epoch == pytest.approx(step / 1e3 * 400 / 16)
    for found in figures["fits"].values():
        assert found["first_share_of_epoch"] == pytest.approx(found["first_seconds"] / epoch)


def test_a_pruned_client_is_smaller(figures: dict) -> None:
    whole, pruned = figures["client"]["whole"], figures["client"]["pruned by half"]
    assert whole["parameters"] == 85_256
    assert pruned["parameters"] == 24_200
    assert pruned["flops"] < 0.3 * whole["flops"]
    assert pruned["milliseconds"] > 0


def test_the_command_prints_one_json_object(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cemlib.bench, "VARIANTS", {"clustering": ("clustering", {})})
    assert main(["bench", "--json", "--samples", "200", "--repeats", "1"]) == 0
    scale = json.loads(capsys.readouterr().out)["scale"]
    assert (scale["network"], scale["dim"], scale["samples"]) == ("vgg11", 512, 200)
    study = str(Path(__file__).parents[1] / "config/config.yaml")
    of_study = ["bench", "--json", "--config", study, "--samples", "200", "--repeats", "1"]
    assert main(of_study) == 0
    scale = json.loads(capsys.readouterr().out)["scale"]
    assert (scale["network"], scale["image_size"], scale["dim"]) == ("small", 16, 512)


def test_memory_is_what_a_call_needs(figures: dict) -> None:
    """Three covariances of 512 x 512 for each of ten classes, in float64, and their factors."""
    assert figures["surrogates"]["logdet"]["peak_memory_mib"] > 40
    assert figures["surrogates"]["gated"]["peak_memory_mib"] < 40


def test_the_table_has_a_row_for_each(figures: dict) -> None:
    rows = [line for line in table(figures).splitlines() if line.startswith("| ")]
    titles_and_rules = 2 * 2
    assert len(rows) == titles_and_rules + len(figures["surrogates"]) + len(figures["client"])
