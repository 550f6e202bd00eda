"""`cemlib compare`: the study's own comparisons, of two defences alone."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from finished_study import Finished

from cemlib.cli import main
from cemlib.records.files import read_json
from cemlib.records.seal import write_sealed


def forge(run: Path, seed: int, **scores: Any) -> None:
    """Write the record of a run with other scores."""
    record = read_json(run / "metrics.json") | {"seed": seed} | scores
    write_sealed(run.with_name(f"seed{seed}") / "metrics.json", record)


def test_differences_are_those_of_comparisons_csv(
    finished: Finished, capsys: pytest.CaptureFixture[str]
) -> None:
    """The study has these two defences alone, so that the correction is the same too."""
    assert main(["compare", "strong", "noise", "--config", finished.config, "--json"]) == 0
    found = pd.DataFrame(json.loads(capsys.readouterr().out))
    texts = dict.fromkeys(("knowledge", "verdict", "unconverged"), str)
    table = pd.read_csv(finished.results / "tables/comparisons.csv", dtype=texts)
    assert len(table) == 1 + 2 * 3  # accuracy; knowledges, scores
    assert list(found.columns) == list(table.columns)
    for name in table.columns:
        if table[name].dtype == float:
            np.testing.assert_allclose(found[name].astype(float), table[name], err_msg=name)
        else:
            assert found[name].tolist() == table[name].fillna("").tolist(), name


def test_failed_and_absent_seeds_are_no_pairs(
    spoilt: Finished, capsys: pytest.CaptureFixture[str]
) -> None:
    spoilt.configure(seeds=[0, 1, 2, 3])
    forge(spoilt.run("strong/seed0"), 2, status="failed", reason="epoch 1: loss is nan")
    forge(spoilt.run("noise/seed0"), 2)
    (spoilt.run("strong/seed1") / "metrics.json").unlink()
    assert main(["compare", "strong", "noise", "--config", spoilt.config]) == 0
    told = capsys.readouterr().out
    rows = [line.split(" | ") for line in told.splitlines() if line.startswith("| strong")]
    assert len(rows) == 1 + 2 * 3
    assert {row[4].strip(" |") for row in rows} == {"1"}


def test_results_of_other_data_are_refused(
    spoilt: Finished, capsys: pytest.CaptureFixture[str]
) -> None:
    for seed in (0, 1):
        forge(spoilt.run(f"strong/seed{seed}"), seed, data_sha256="f" * 64)
    assert main(["compare", "strong", "noise", "--config", spoilt.config]) == 2
    assert "made from another" in capsys.readouterr().err
    assert main(["compare", "strong", "noise", "--stale", "--config", spoilt.config]) == 0
    assert capsys.readouterr().out.startswith("stale: ")


@pytest.mark.parametrize(
    ("names", "part"),
    [
        (("strog", "noise"), "did you mean 'strong'?"),
        (("noise", "noise"), "name two defences"),
        (("strong", "noise", "--set", "results=none"), "no finished run in none/short"),
    ],
)
def test_a_wrong_side_is_one_line(
    names: tuple[str, ...], part: str, finished: Finished, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", *names, "--config", finished.config]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert part in line
