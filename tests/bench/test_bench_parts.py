"""The parts at a small size: every figure is there, and they fit together."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import cemlib.bench.surrogates
from cemlib.bench.figure import draw
from cemlib.bench.floor import floor_ms, flops, matrix_rates
from cemlib.bench.ours import step_flops
from cemlib.bench.run import bench
from cemlib.bench.scale import PARTS, Scale
from cemlib.bench.scaling import scaling, slope
from cemlib.bench.start_up import helps, training_job
from cemlib.bench.subject import DEFENCES, split_model
from cemlib.bench.text import table
from cemlib.bench.timing import Work, alternately, compared, summary
from cemlib.surrogates import SURROGATES

QUICK = tuple(part for part in PARTS if part != "start_up")  # which starts a dozen processes
FULL = "gmm, full covariance"  # takes a fit to be timed at all
OFTEN = ("logdet", {"refresh": 4})  # what is timed is a whole period, by default of 50 steps


@pytest.fixture(scope="module")
def figures(tiny: Scale) -> Iterator[dict[str, Any]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.delitem(cemlib.bench.surrogates.VARIANTS, FULL)
        patch.setitem(cemlib.bench.surrogates.VARIANTS, "logdet", OFTEN)
        yield bench(tiny, QUICK)


def lines(figures: dict[str, Any]) -> list[dict[str, Any]]:
    """Everything that `compared` made."""
    if "times_faster" in figures:
        return [figures]
    inner = [value for value in figures.values() if isinstance(value, dict)]
    return [line for value in inner for line in lines(value)]


def test_every_part_is_measured(figures: dict[str, Any]) -> None:
    assert set(QUICK) < set(figures)
    assert set(figures["surrogates"]["penalties"]) == set(SURROGATES)
    assert set(figures["fits"]["fits"]) == {name for name in SURROGATES if SURROGATES[name].fits}
    assert set(figures["training"]["steps"]) == set(DEFENCES)
    assert {"epoch", "concurrent"} < set(figures["training"])


def test_ratios_and_shares_are_those_of_the_medians(figures: dict[str, Any]) -> None:
    for line in lines(figures):
        ours, reference = line["ours"], line["reference"]
        assert 0 < ours["fastest"] <= ours["milliseconds"] <= ours["slowest"]
        assert (line["times_faster"] is None) == (reference is None)
        if reference is not None:
            expected = reference["milliseconds"] / ours["milliseconds"]
            assert line["times_faster"] == pytest.approx(expected)
        if line["floor_milliseconds"] is not None:
            expected = line["floor_milliseconds"] / ours["milliseconds"]
            assert line["floor_share"] == pytest.approx(expected)


def test_shares_are_of_the_step_and_of_the_epoch(figures: dict[str, Any], tiny: Scale) -> None:
    step = figures["surrogates"]["step_milliseconds"]
    for line in figures["surrogates"]["penalties"].values():
        assert line["share_of_step"] == pytest.approx(line["ours"]["milliseconds"] / step)
    epoch = step * tiny.samples / tiny.batch
    for line in figures["fits"]["fits"].values():
        assert line["share_of_epoch"] == pytest.approx(line["ours"]["milliseconds"] / epoch)


def test_images_per_second_are_those_of_the_step(figures: dict[str, Any], tiny: Scale) -> None:
    found = figures["training"]
    for line in (*found["steps"].values(), found["concurrent"]):
        seconds = line["ours"]["milliseconds"] / 1e3
        assert line["ours"]["images_per_second"] == pytest.approx(tiny.batch / seconds)
    epoch = found["epoch"]["reference"]
    assert epoch["epoch_seconds"] == pytest.approx(tiny.samples / epoch["images_per_second"])


def test_memory_is_what_a_call_needs() -> None:
    """64 MiB of numbers that were not there before, and are gone afterwards."""
    works = [Work(lambda: torch.zeros(2**24)), Work(lambda: torch.zeros(2))]
    large, small = alternately(works, 1, "cpu")
    if large["peak_memory_mib"] is None:
        pytest.skip("this system does not tell")
    assert 60 < large["peak_memory_mib"] < 80
    assert small["peak_memory_mib"] < 10


def test_a_penaltys_memory_is_its_own(tiny: Scale, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three covariances of 512 x 512 for each of ten classes, in float64, and their factors."""
    few: dict[str, tuple[str, dict[str, Any]]] = {"logdet": OFTEN, "gated": ("gated", {})}
    monkeypatch.setattr(cemlib.bench.surrogates, "VARIANTS", few)
    scale = replace(tiny, image_size=32, batch=16, repeats=1)
    found = bench(scale, ["surrogates"])["surrogates"]["penalties"]
    memory = {name: found[name]["ours"]["peak_memory_mib"] for name in few}
    if None in memory.values():
        pytest.skip("this system does not tell")
    assert memory["logdet"] > 40 > memory["gated"]


def test_a_pruned_client_is_smaller() -> None:
    found = bench(Scale(batch=4, repeats=1), ["client"])["client"]
    whole, pruned = found["whole"], found["pruned by half"]
    assert whole["parameters"] == 85_256
    assert pruned["parameters"] == 24_200
    assert pruned["flops"] < 0.3 * whole["flops"]


@pytest.mark.parametrize("warm_up", [True, False])
def test_works_are_called_in_turns(warm_up: bool) -> None:
    called: list[str] = []
    works = [Work(lambda: called.append("a")), Work(lambda: called.append("b"))]
    alternately(works, 3, "cpu", warm_up=warm_up)
    assert called == ["a", "b"] * (3 + warm_up)


def test_a_timing_is_of_one_of_what_a_work_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 1.0, 0.0, 4.0, 0.0, 2.0])
    monkeypatch.setattr("cemlib.bench.timing.time.perf_counter", lambda: next(clock))
    (found,) = alternately([Work(lambda: None, count=4)], 3, "cpu", warm_up=False)
    assert (found["milliseconds"], found["fastest"], found["slowest"]) == (500, 250, 1000)


def test_without_a_reference_there_is_no_ratio() -> None:
    found = compared(summary([2.0]), None, "nothing")
    assert (found["times_faster"], found["floor_share"]) == (None, None)


def test_operations_of_a_step_are_three_passes_less_the_images_gradient() -> None:
    """Forward, gradient of the weights, gradient of the inputs but for the first layer's."""
    scale = Scale(batch=2)
    model, passes = split_model(scale), []

    def note(layer: nn.Module, _: Any, output: torch.Tensor) -> None:
        weight = layer.weight
        assert isinstance(weight, torch.Tensor)
        passes.append(2 * weight.numel() * output.numel() // len(weight))

    for layer in model.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            layer.register_forward_hook(note)
    model(torch.rand(2, 3, 32, 32))
    assert step_flops(scale) == 3 * sum(passes) - passes[0]


def test_the_floor_is_operations_over_the_rate() -> None:
    left, right = torch.rand(20, 30), torch.rand(30, 40)
    operations = flops(lambda: left @ right)
    assert operations == 2 * 20 * 30 * 40
    rate = matrix_rates("cpu", 1)["float32"]
    assert 1e9 < rate < 1e14
    assert floor_ms(operations, "cpu", 1) == pytest.approx(1e3 * operations / rate)


def test_a_slope_is_the_exponent() -> None:
    points = [{"value": x, "milliseconds": 3 * x**1.5} for x in (10, 20, 80)]
    assert slope(points) == pytest.approx(1.5)
    assert slope(points[:1]) is None


def test_a_line_ends_after_the_point_that_took_too_long(tiny: Scale) -> None:
    found = scaling(replace(tiny, patience=0.0))
    line = found["K"]["clustering"]
    assert [point["value"] for point in line["points"]] == [1]
    assert (line["slope"], line["ended_before"]) == (None, 2)


def test_costs_are_drawn_along_every_quantity(figures: dict[str, Any], tmp_path: Path) -> None:
    found = figures["scaling"]
    assert {quantity: len(lines) for quantity, lines in found.items()} == {
        "N": 3,
        "C": len(SURROGATES) + 1,
        "K": 3,
        "D": len(SURROGATES) + 1,
    }
    text = draw(found, tmp_path / "costs.svg").read_text()
    named = {label for lines in found.values() for label in lines}
    assert all(f"<!-- {label} -->" in text for label in named)
    assert draw(found, tmp_path / "costs.png").read_bytes().startswith(b"\x89PNG")


def test_the_table_has_a_row_for_each(figures: dict[str, Any]) -> None:
    text = table(figures)
    assert text.count("### ") == len(QUICK)
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| ")]
    first = {row[0].removeprefix("| ") for row in rows}
    assert set(SURROGATES) | {"step, noise", "ssim", "image folder", "whole"} <= first
    widths = [len(row) for row in rows]
    heads = [index for index, row in enumerate(rows) if row[1] == "---:"]
    assert len(heads) == len(QUICK)
    assert all(widths[index - 1] == widths[index] == widths[index + 1] for index in heads)


def test_help_is_timed_for_every_command() -> None:
    found = helps()
    assert {"cemlib --help", "cemlib train --help", "cemlib bench --help"} <= set(found)
    assert found["cemlib train --help"][-3:] == ["cemlib", "train", "--help"]


def test_a_training_job_runs(tiny: Scale) -> None:
    assert training_job(tiny, 1)["milliseconds"] > 0
