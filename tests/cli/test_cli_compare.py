"""`cemlib compare`: paired differences, against scipy and the study's own comparisons.csv."""

import json
import math
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from finished_study import Finished
from scipy.stats import ttest_rel

from cemlib.cli import main
from cemlib.cli.compare import as_text
from cemlib.records.files import read_json
from cemlib.records.seal import write_sealed
from cemlib.report.paired import compare, read_side
from cemlib.report.statistics import holm


def rows_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[tuple[str, ...], Any]:
    assert main(["compare", *arguments, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    return {(row["attack"], row["knowledge"], row["score"]): row for row in rows}


def forge(run: Path, seed: int, **scores: Any) -> None:
    """Write the record of a run with other scores."""
    record = read_json(run / "metrics.json") | {"seed": seed} | scores
    write_sealed(run.with_name(f"seed{seed}") / "metrics.json", record)


def test_differences_are_those_of_comparisons_csv(
    finished: Finished, capsys: pytest.CaptureFixture[str]
) -> None:
    found = rows_of(capsys, "strong", "noise", "--config", finished.config)
    table = pd.read_csv(finished.results / "tables/comparisons.csv").fillna({"knowledge": ""})
    assert len(table) == 1 + 2 * 3  # accuracy; knowledges, scores
    for _, line in table.iterrows():
        attack = "worst_case" if line["knowledge"] else ""
        row = found[attack, line["knowledge"], line["metric"]]
        expected = [line[name] for name in ("difference", "ci_low", "ci_high", "p")]
        got = [row["difference"][name] for name in ("mean", "low", "high", "p")]
        assert [math.nan if x is None else x for x in got] == pytest.approx(expected, nan_ok=True)


def test_intervals_over_images_are_around_the_same_difference(finished: Finished) -> None:
    table = pd.read_csv(finished.results / "tables/comparisons.csv")
    some = table[table["metric"].isin(["mse", "ssim"]) & table["difference"].notna()]
    assert len(some) == 4
    middle = (some["boot_low"] + some["boot_high"]) / 2
    assert middle.tolist() == pytest.approx(some["difference"].tolist(), rel=1e-5, abs=1e-8)
    assert (some["boot_low"] < some["boot_high"]).all()


def test_every_attack_is_compared_as_scipy_does(
    finished: Finished, capsys: pytest.CaptureFixture[str]
) -> None:
    found = rows_of(capsys, "strong", "noise", "--config", finished.config)
    place = "attacks/linear-public_data/metrics.json"
    ours, theirs = (
        [read_json(finished.run(f"{defence}/seed{seed}") / place)["ssim"] for seed in (0, 1)]
        for defence in ("strong", "noise")
    )
    row = found["linear", "public_data", "ssim"]
    test = ttest_rel(ours, theirs)
    low, high = test.confidence_interval(0.95)
    assert row["first"] == pytest.approx(sum(ours) / 2)
    assert row["difference"]["p"] is None  # an attack's SSIM is not tested
    assert (row["difference"]["low"], row["difference"]["high"]) == pytest.approx((low, high))


def test_the_worst_cases_errors_are_tested_and_corrected(
    finished: Finished, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = rows_of(capsys, "strong", "noise", "--config", finished.config)
    tested = {key: row for key, row in rows.items() if row["difference"]["p"] is not None}
    assert set(tested) == {("worst_case", k, "mse") for k in ("train_data", "public_data")}
    p = holm([row["difference"]["p"] for row in tested.values()])
    assert [row["p_holm"] for row in tested.values()] == pytest.approx(p)
    assert len(rows) == 2 + 3 * 2 * 4  # runs; worst case and two attacks, knowledges, scores


def test_folders_stand_for_defences(finished: Finished, capsys: pytest.CaptureFixture[str]) -> None:
    by_name = rows_of(capsys, "strong", "noise", "--config", finished.config)
    folders = [str(finished.run(name)) for name in ("strong", "noise")]
    by_folder = rows_of(capsys, *folders, "--config", "nowhere.yaml")
    assert by_folder == by_name


def test_the_text_fits_eighty_columns(
    finished: Finished, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", "strong", "noise", "--config", finished.config]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert "worst_case, train_data: 2 pairs" in lines
    assert lines[0] == "first: strong"


def test_a_failed_and_an_absent_seed_are_told_and_left_out(
    spoilt: Finished, capsys: pytest.CaptureFixture[str]
) -> None:
    spoilt.configure(seeds=[0, 1, 2, 3])
    forge(spoilt.run("strong/seed0"), 2, status="failed", reason="epoch 1: loss is nan")
    forge(spoilt.run("noise/seed0"), 2)
    assert main(["compare", "strong", "noise", "--config", spoilt.config]) == 0
    told = capsys.readouterr().out
    assert "strong: 2 of 4 seeds finished\nstrong: seed2 failed: epoch 1: loss is nan\n" in told
    assert "strong: seed3 not trained yet\nnoise: 3 of 4 seeds finished\n" in told
    assert "accuracy and leakage bound: 2 pairs" in told


def test_a_single_common_seed_gives_no_interval(
    spoilt: Finished, capsys: pytest.CaptureFixture[str]
) -> None:
    (spoilt.run("strong/seed1") / "metrics.json").unlink()
    assert main(["compare", "strong", "noise", "--config", spoilt.config]) == 0
    told = capsys.readouterr().out
    assert "one common seed: a difference, but no interval and no p" in told
    (line,) = [line.split() for line in told.splitlines() if line.startswith("  top1 ")]
    assert line[4:] == ["-", "-", "-", "-"]


def test_other_data_are_not_paired(spoilt: Finished, capsys: pytest.CaptureFixture[str]) -> None:
    for seed in (0, 1):
        forge(spoilt.run(f"strong/seed{seed}"), seed, data_sha256="f" * 64)
    assert main(["compare", "strong", "noise", "--config", spoilt.config]) == 2
    assert "made from another" in capsys.readouterr().err
    assert main(["compare", "strong", "noise", "--stale", "--config", spoilt.config]) == 0
    told = capsys.readouterr().out
    assert "stale: " in told
    assert "trained on different data: not paired, so no interval and no p" in told
    assert "accuracy and leakage bound: 0 pairs" in told


def test_no_common_seed_leaves_means_of_each(spoilt: Finished) -> None:
    sides = [
        read_side(name, [spoilt.run(f"{name}/seed{seed}") / "metrics.json"], [])
        for name, seed in (("strong", 0), ("noise", 1))
    ]
    found = compare(*sides)
    top1 = found.rows[0]
    assert top1.first == sides[0].runs["top1"].item()
    assert top1.difference.mean == pytest.approx(top1.first - top1.second)
    assert "no seed is finished on both sides: not paired, so no interval and no p" in found.notes
    assert "top1" in as_text(found, "strong", "noise")


def test_an_attack_of_one_side_alone_is_told(spoilt: Finished) -> None:
    runs = {name: spoilt.run(f"{name}/seed0") / "metrics.json" for name in ("strong", "noise")}
    few = sorted(runs["noise"].parent.glob("attacks/mean*/metrics.json"))
    every = sorted(runs["strong"].parent.glob("attacks/*/metrics.json"))
    first, second = (
        read_side(name, [runs[name]], attacks)
        for name, attacks in (("strong", every), ("noise", few))
    )
    notes = "\n".join(compare(first, second).notes)
    assert "only strong has linear: the worst case of noise may be over fewer attacks" in notes


@pytest.mark.parametrize(
    ("names", "part"),
    [
        (("strog", "noise"), "did you mean 'strong'?"),
        (("noise", "noise"), "name two defences"),
        (("noise", "results/none/runs/noise"), "no finished run here"),
    ],
)
def test_a_wrong_side_is_one_line(
    names: tuple[str, str], part: str, finished: Finished, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", *names, "--config", finished.config]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert part in line
