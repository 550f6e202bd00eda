"""The jobs of a tiny study in this process: what they leave, and what survives a kill."""

import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from labelling_study import plan_in, tiny
from result_files import bits
from scipy.stats import t as student_t
from scipy.stats import ttest_rel

from cemlib.cli import exits, main
from cemlib.data.prepared import load
from cemlib.labelling import experiment
from cemlib.labelling.participants import METHODS, Participants
from cemlib.labelling.tables import SECONDS, Results, differences_table
from cemlib.records.seal import check_files, read_sealed
from cemlib.study.finished import finished
from cemlib.study.job import prepare_job
from cemlib.study.labelling import jobs, repeat_job
from cemlib.study.plan import Plan
from cemlib.study.running import rerun_job


def carried_out(plan: Plan) -> Plan:
    """A study after all its jobs."""
    plan.write_config()
    for job in jobs(plan):
        assert all(Path(written).is_file() for written in rerun_job(job))
    return plan


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    return carried_out(plan_in(tmp_path_factory.mktemp("study")))


def table(plan: Plan, name: str) -> pd.DataFrame:
    return pd.read_csv(plan.layout.tables / f"{name}.csv")


def test_a_record_is_whole_and_sealed(plan: Plan) -> None:
    folder = plan.layout.repeat(20, 1)
    record = read_sealed(folder.metrics)
    check_files(folder.metrics, record, [folder.history, folder.per_image, folder.config])
    assert (record["status"], record["seed"], record["images"]) == ("ok", 1, 20)
    assert record["config"] == plan.study.repeat_slice()
    assert len(record["participants"]) == 4
    mean = sum(row["iel"] for row in record["participants"]) / 4
    assert record["iel_top1"] == pytest.approx(mean)
    assert {"fingerprint", "commit", "versions", "device"} <= set(record["provenance"])


def test_answers_are_kept_as_the_requester_sees_them(plan: Plan) -> None:
    rows = pd.read_parquet(plan.layout.repeat(30, 0).per_image)
    counts = rows[[f"count_{k}" for k in range(10)]]
    assert len(rows) == 12
    assert (rows["answer"] == counts.to_numpy().argmax(1)).all()
    assert (counts.to_numpy() % 1 != 0).any()  # noisy: nobody's votes can be read off
    right = (rows["answer"] == rows["label"])[rows["answered"]].mean()
    assert read_sealed(plan.layout.repeat(30, 0).metrics)["label_accuracy"] == pytest.approx(right)


def test_accuracies_are_those_of_participants_who_learn_again(plan: Plan) -> None:
    """Method by method, from the answers that are kept."""
    folder, study = plan.layout.repeat(30, 0), plan.study
    rows = pd.read_parquet(folder.per_image)
    counts = torch.tensor(rows[[f"count_{k}" for k in range(10)]].to_numpy())
    participants = Participants(study, 0, load(plan.layout.data))
    own = [participants.own(who, 30) for who in range(4)]
    for method in METHODS:
        answers = participants.answered(counts, study.privacy.epsilon, method)
        found = participants.learn([(who, each.joined(answers)) for who, each in enumerate(own)])
        written = [row[method] for row in read_sealed(folder.metrics)["participants"]]
        assert written == pytest.approx(found["accuracy"].tolist())


def test_every_table_has_the_whole_epsilon(plan: Plan) -> None:
    for name, formula in (("accuracy", "formula_"), ("epsilon", "formula_"), ("privacy", "")):
        columns = {"sigma", f"{formula}sensitivity", "queries", "delta", "epsilon_total_exact"}
        assert columns <= set(table(plan, name))
    assert (table(plan, "accuracy")["noise"] == "sigma^2 in total").all()
    no_noise = table(plan, "epsilon").query("sigma == 0")
    assert len(no_noise) == 2
    assert no_noise["epsilon_total_exact"].eq(math.inf).all()
    for name in ("accuracy", "differences", "epsilon", "cost"):
        assert "σ² in total" in (plan.layout.tables / f"{name}.md").read_text()


def test_means_intervals_and_tests_are_scipys(plan: Plan) -> None:
    records = [read_sealed(plan.layout.repeat(30, number).metrics) for number in (0, 1)]
    iel, init = ([record[f"{name}_top1"] for record in records] for name in ("iel", "init"))
    row = table(plan, "accuracy").set_index("images").loc[30]
    half = student_t.ppf(0.975, 1) * pd.Series(iel).std() / math.sqrt(2)
    assert row["iel_top1_mean"] == pytest.approx(sum(iel) / 2)
    assert row["iel_top1_ci_high"] == pytest.approx(sum(iel) / 2 + half)
    pairs = table(plan, "differences").set_index(["images", "first", "second"])
    found = pairs.loc[(30, "iel", "init")]
    assert found["difference"] == pytest.approx((sum(iel) - sum(init)) / 2)
    assert found["p"] == pytest.approx(ttest_rel(iel, init).pvalue)


def test_p_values_are_corrected_for_the_comparisons_of_all_sizes() -> None:
    scores = np.random.default_rng(0).normal((0.5, 0.6, 0.62, 0.4), 0.02, (2, 3, 4))
    columns = [f"{name}_top1" for name in ("init", "capc", "iel", "constant")]
    repeats = pd.DataFrame(scores.reshape(6, 4), columns=columns)
    repeats = repeats.assign(images=[20] * 3 + [30] * 3, seed=[0, 1, 2] * 2, status="ok")
    found = differences_table(Results(repeats, pd.DataFrame(), pd.DataFrame()), tiny())
    pairs = [(1, 0), (2, 0), (2, 1), (2, 3)]
    p = np.array([ttest_rel(of[:, a], of[:, b]).pvalue for of in scores for a, b in pairs])
    assert found["p"].tolist() == pytest.approx(p)
    order = np.argsort(p)
    adjusted = np.maximum.accumulate(np.arange(8, 0, -1) * p[order]).clip(max=1)
    assert found["p_holm"][order].tolist() == pytest.approx(adjusted)


def test_costs_have_our_rows_and_the_published_ones(plan: Plan) -> None:
    found = table(plan, "cost")
    published = found[found["source"] == "published"].iloc[0]
    assert published[["key_bits", *SECONDS]].tolist() == [2048, 1.20, 0.49]
    ours = found[found["source"] == "ours"]
    assert set(ours["key_bits"]) == {256, 320}
    assert ours.groupby("packing")["ciphertexts"].max()["none"] == 10


def test_a_killed_repeat_goes_on_to_the_same_numbers(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Interrupted as it asks a second time: what was answered is not asked again."""
    other = plan_in(tmp_path)
    list(rerun_job(prepare_job(other)))
    real, calls = experiment.aggregate, []

    def killed(*arguments: Any) -> Any:
        calls.append(arguments)
        if len(calls) == 1:
            time.sleep(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(experiment, "aggregate", killed)
    with pytest.raises(KeyboardInterrupt):
        list(rerun_job(repeat_job(other, 0)))
    assert list(tmp_path.glob(".checkpoints/*/state.checkpoint"))
    assert len(list(rerun_job(repeat_job(other, 0)))) == 2
    assert len(calls) == 2 + 3  # two rounds for each of the two sizes, and the one that was cut off
    assert not list(tmp_path.glob(".checkpoints/*"))
    for images in (20, 30):
        one, two = (study.layout.repeat(images, 0).root for study in (plan, other))
        assert bits(one) == bits(two)
    seconds = read_sealed(other.layout.repeat(20, 0).metrics)["wall_seconds"]
    assert seconds > 1  # the second before it was killed


def test_a_study_goes_on_where_it_was_left(plan: Plan, capsys: pytest.CaptureFixture[str]) -> None:
    config = str(plan.layout.config)
    assert all(finished(job) for job in jobs(plan) if job.records)
    before = plan.layout.repeat(20, 0).metrics.stat().st_mtime_ns
    assert main(["run", "--config", config]) == exits.OK
    assert "repeat" not in capsys.readouterr().err
    assert plan.layout.repeat(20, 0).metrics.stat().st_mtime_ns == before
    changed = plan_in(plan.layout.root.parent, train__lr=1e-4)
    left = {job.name for job in jobs(changed) if job.records and not finished(job)}
    assert left == {"repeat/0", "repeat/1"}
    assert main(["run", "--config", config, "--only", "repeat/7"]) == exits.USAGE
    assert "--only repeat/7: no such job (there are prepare, repeat, " in capsys.readouterr().err


def test_a_training_that_diverges_is_a_failed_result(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = plan_in(tmp_path, train__lr=1e30, images=[20], repeats=1)
    plan.write_config()
    kinds = {"prepare": exits.OK, "repeat": exits.DIVERGED, "cost": exits.OK, "report": exits.OK}
    for kind, code in kinds.items():
        assert main(["run", "--config", str(plan.layout.config), "--only", kind]) == code
    assert "failed: images20/seed0: step 2: loss is nan; a lower" in capsys.readouterr().out
    record = read_sealed(plan.layout.repeat(20, 0).metrics)
    assert (record["status"], record["iel_top1"]) == ("failed", None)
    row = table(plan, "accuracy").iloc[0]
    assert (row["n_repeats"], row["n_failed"]) == (1, 1)
    assert math.isnan(row["iel_top1_mean"])
    row = table(plan, "epsilon").iloc[0]
    assert (row["n_repeats"], row["n_failed"]) == (1, 1)
    for name in ("accuracy", "epsilon"):
        assert "failed" in (plan.layout.tables / f"{name}.md").read_text()
