"""Training and attacks in memory against the jobs of the workflow, bit for bit."""

import math
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
import torch
from result_files import timeless
from tiny_study import RAW, blob_data, judged, tiny_plan, trained

from cemlib.config import Study, parse
from cemlib.config.study import JUDGE, JUDGE_SEED
from cemlib.data.prepared import Prepared
from cemlib.evaluation.attack import attack, table
from cemlib.evaluation.job import run
from cemlib.models import SplitModel, build
from cemlib.records.files import load_tensors, read_json, read_jsonl
from cemlib.records.layout import KNOWLEDGES
from cemlib.report.build import Results, write_tables
from cemlib.report.tables import collect
from cemlib.study.plan import Plan
from cemlib.study.split import attack_job, jobs
from cemlib.training.fit import fit
from cemlib.training.job import network_options

DECODER = RAW["attacks"]["decoder"]
ATTACKS = {
    "decoder": DECODER | {"epochs": 2},
    "perceptual": DECODER | {"epochs": 2},
    "gan": {"epochs": 2, "batch_size": 32, "critic_steps": 2, "critic_width": 4},
    "refinement": {"kind": "optimisation", "start": "decoder", "iterations": 4},
    "strong": DECODER | {"kind": "decoder", "epochs": 1, "budget": "strong"},
    "often": {"kind": "linear", "queries": 4},
    "mean_image": {},
}


def named(study: Study, defence: str, data: Prepared) -> Callable[[], SplitModel]:
    """The network of the study, as its jobs make it."""
    network = network_options(study, defence, data)
    return lambda: build(**network).to(memory_format=torch.channels_last)


@pytest.mark.parametrize("defence", ["logdet", "clustering", "everything"])
def test_a_training_in_memory_is_the_jobs(tmp_path: Path, defence: str) -> None:
    folder = trained(tmp_path, defence, seed=1, epochs=3)
    study = tiny_plan(tmp_path, epochs=3).study
    data = blob_data()
    found = fit(study, defence, data, named(study, defence, data), seed=1)
    weights, expected = found.deployed.model.state_dict(), load_tensors(folder.model)
    assert weights.keys() == expected.keys()
    assert all(torch.equal(weights[name], expected[name]) for name in expected)
    assert timeless(found.history) == timeless(read_jsonl(folder.history))
    metrics = read_json(folder.metrics)
    assert {name: metrics[name] for name in found.scores} == found.scores
    assert found.epoch == metrics["selected_epoch"]


def test_attacks_in_memory_are_the_jobs(tmp_path: Path) -> None:
    folder, defences = trained(tmp_path, "noise"), {"noise": {}}
    raw = RAW | {"results": str(tmp_path), "attacks": ATTACKS, "defences": defences}
    plan, data = Plan(parse(raw | {"seeds": [0]}), device="cpu"), blob_data()
    judged(tmp_path)
    list(run(attack_job(plan, "noise", 0, list(ATTACKS))))
    victim, judge = (fit(plan.study, n, data, named(plan.study, n, data)) for n in ("noise", JUDGE))
    assert judge.seed == JUDGE_SEED
    found = attack(plan.study, victim, judge, data)
    names = [(each.attack, each.knowledge) for each in found]
    assert names == [(name, knowledge) for name in ATTACKS for knowledge in KNOWLEDGES]
    for each in found:
        place = folder.attack(each.attack, each.knowledge)
        metrics, columns = read_json(place.metrics), pd.read_parquet(place.per_image)
        assert each.reason is None
        assert {name: metrics[name] for name in each.scores} == each.scores
        assert timeless(each.history) == timeless(read_jsonl(place.history))
        for name, values in each.per_image.items():
            assert torch.equal(values, torch.tensor(columns[name].to_numpy()))
    check_table(plan, table([victim], found))
    with pytest.raises(ValueError, match="no result of an attack"):
        table([victim], [])
    for wrong in ("train_data", ["train"]):
        with pytest.raises(ValueError, match=r"knowledges: .*; give a list of some of"):
            attack(plan.study, victim, judge, data, knowledges=wrong)


def check_table(plan: Plan, summary: pd.DataFrame) -> None:
    """The table in memory against the study's own, written from its files."""
    runs, attacks = (jobs(plan)[-1].inputs[part] for part in ("runs", "attacks"))
    out = plan.layout.tables
    write_tables(Results(*collect(runs, attacks), ["noise"]), plan.layout.root, out)
    summary.to_csv(out / "ours.csv", index=False)
    ours, expected = (pd.read_csv(out / f"{name}.csv") for name in ("ours", "summary"))
    pd.testing.assert_frame_equal(ours, expected, check_exact=True)


def test_an_attack_that_diverges_is_a_failed_row() -> None:
    attacks = {"decoder": DECODER | {"lr": 1e30}, "linear": {}}
    attacks["refinement"] = {"kind": "optimisation", "start": "decoder"}
    sections = {"attacks": attacks, "train": {"epochs": 1}, "defences": {"noise": {}}}
    study, data = parse(RAW | sections), blob_data()
    victim, judge = (fit(study, n, data, named(study, n, data)) for n in ("noise", JUDGE))
    found = attack(study, victim, judge, data, knowledges=["train_data"])
    reasons = [each.reason for each in found]
    assert "_mse is" in str(reasons[0])
    assert reasons[1] is None
    assert str(reasons[2]).startswith("the attack it starts from failed: decoder: ")
    rows = table([victim], found).set_index("attack")
    assert dict(rows["n_failed"]) == {"decoder": 1, "linear": 0, "refinement": 1, "worst_case": 1}
    assert math.isnan(float(rows["mse_mean"]["worst_case"]))
    assert float(rows["mse_mean"]["linear"]) == found[1].scores["mse"]
