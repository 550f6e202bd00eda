"""How the steps of a study are measured before it runs; `test_workflow_extending` has the rest."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from cemlib.attacks.optimisation import optimisation
from cemlib.attacks.task import Outcome, Task
from cemlib.cli import main
from cemlib.config import parse
from cemlib.config.study import JUDGE
from cemlib.evaluation.scene import Scene
from cemlib.numerics.divergence import DivergedError
from cemlib.records.checkpoint import Checkpoint
from cemlib.search import estimate
from cemlib.study.job import prepare_job
from cemlib.study.plan import Plan
from cemlib.study.running import rerun_job
from cemlib.study.split import attack_job, train_job
from cemlib.training.job import new_trainer

ROOT = Path(__file__).parents[1]
TINY = ROOT / "tests/configs/tiny.yaml"


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    study = yaml.safe_load(TINY.read_text()) | {"results": str(tmp_path_factory.mktemp("results"))}
    plan = Plan(parse(study), device="cpu")
    list(rerun_job(prepare_job(plan)))
    return plan


def scene_of(plan: Plan) -> Scene:
    """The scene of attacks on untrained networks."""
    data = estimate.read_data(train_job(plan, "noise", 0))
    victim, judge = (new_trainer(plan.study, n, 0, data).deployed for n in ("noise", JUDGE))
    return Scene(plan.study, "noise", 0, data, victim, judge)


def test_steps_that_are_left_out_are_counted(
    prepared: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 3 steps two are taken; all images are fitted, those of the third step too."""
    monkeypatch.setattr(estimate, "STEPS", 1)
    data = estimate.read_data(train_job(prepared, "noise", 0))
    trainer = new_trainer(prepared.study, "clustering", 0, data)
    fitted = []
    monkeypatch.setattr(trainer.surrogate, "fit", lambda features, _: fitted.append(len(features)))
    seconds = estimate.epoch_seconds(trainer, 1)
    steps = trainer.step
    assert (len(trainer.batches.sizes), len(steps.seconds)) == (3, 2)
    first, second = steps.seconds
    assert steps.not_counted() == pytest.approx(3 * second - first - second)
    assert seconds > 3 * second
    assert fitted == [180]


def test_a_training_that_diverges_is_measured_all_the_same(prepared: Plan) -> None:
    wild = {"surrogate": {"name": "slot", "lambda": 1.0e15, "scale": 1.0e15}}
    study = parse(prepared.study.plain() | {"defences": {"noise": {}, "wild": wild}})
    assert estimate.train_seconds(train_job(replace(prepared, study=study), "wild", 0)) > 0


def test_an_attack_is_measured_by_parts_until_one_takes_a_while(
    prepared: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An attack of its own kind, whose clock is told how long it takes."""
    found = []

    def attack(task: Task) -> Outcome:
        found.append((len(task.own.images), task.options["epochs"], len(task.released)))
        if len(found) == 1:
            raise DivergedError("too short a course")
        return Outcome(task.released, {})

    def seconds_of(work: Callable[[], object]) -> float:
        work()
        images, epochs, _ = found[-1]
        return images * epochs / 300

    monkeypatch.setattr(estimate, "seconds_of", seconds_of)
    monkeypatch.setattr(estimate, "ENOUGH", 1.0)
    task = scene_of(prepared).task(
        "decoder", "train_data", Checkpoint(prepared.layout.root / "none")
    )
    long = replace(task, options=task.options | {"epochs": 50})
    assert estimate.run_seconds(attack, long) == pytest.approx(180 * 50 / 300)
    assert found == [(64, 3, 36), (128, 3, 72)]  # of 180 images and 100 releases


def test_a_denoiser_is_counted_as_a_decoder(
    prepared: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its 8 epochs take 0.01 s for each of 180 images, and each of 500 steps takes 0.1 s."""
    found = []

    def attack(task: Task) -> Outcome:
        found.append((task.options["kind"], len(task.own.images), task.options["denoiser_weight"]))
        return Outcome(task.released, {})

    def decoder(task: Task) -> Outcome:
        found.append((task.options["kind"], len(task.own.images), len(task.own.features[0])))
        return Outcome(task.released, {})

    def seconds_of(work: Callable[[], object]) -> float:
        work()
        kind, images, _ = found[-1]
        return 0.01 * 3 * images if kind == "decoder" else 0.1 * 3 * images / 180

    monkeypatch.setattr(estimate, "seconds_of", seconds_of)
    monkeypatch.setattr(estimate, "decoder", decoder)
    monkeypatch.setattr(estimate, "ENOUGH", 0.1)
    task = scene_of(prepared).task("refinement", "train_data", Checkpoint(Path("none")), None)
    changes = {"iterations": 500, "batch_size": 90, "denoiser_weight": 1.0}
    seconds = estimate.run_seconds(attack, replace(task, options=task.options | changes))
    assert seconds == pytest.approx(8 * 0.01 * 180 + 500 * 0.1)
    assert found == [("decoder", 64, 1), ("optimisation", 90, 0.0)]  # images of one channel


def test_an_attack_that_begins_with_another_has_its_untrained_decoder(
    prepared: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(estimate, "ENOUGH", 0.0)
    assert estimate.attack_seconds(attack_job(prepared, "noise", 0, ["refinement"])) > 0


def test_a_denoiser_is_trained_with_the_options_of_the_attack(prepared: Plan) -> None:
    task = scene_of(prepared).task("refinement", "train_data", Checkpoint(Path("none")), None)
    few = {"iterations": 1, "denoiser_weight": 1.0}
    assert estimate.run_seconds(optimisation, replace(task, options=task.options | few)) > 0


def test_attacks_are_measured_for_every_network(
    prepared: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = {"early": {"model": {"cut": 2}}, "late": {"model": {"cut": 3}}, "noise": {}}
    attacks = {"decoder": {"epochs": 1}}
    study = prepared.study.plain() | {"defences": changes, "attacks": attacks, "reference": None}
    plan = replace(prepared, study=parse(study))
    monkeypatch.setattr(estimate, "_in_new_process", lambda *_: (1.0, 1.0, 1.0))
    found = {cost.kind: cost.jobs for cost in estimate.estimate(plan, lambda _: None)}
    seeds = len(plan.study.seeds)
    attacked = {kind: jobs for kind, jobs in found.items() if kind.startswith("attack")}
    assert attacked == {"attack decoder on early": seeds, "attack decoder on late": 2 * seeds}


def test_the_total_is_that_of_all_jobs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """3 jobs of 2 hours and one of one, on one thread each; two of the largest side by side."""
    costs = [estimate.Cost("a", 3, 7200, 500, 0), estimate.Cost("b", 1, 3600, 800, 0)]
    monkeypatch.setattr(estimate, "estimate", lambda *_: costs)
    assert main(["estimate", "--config", str(TINY), "--device", "cpu", "--slots", "2"]) == 0
    said = capsys.readouterr().out.splitlines()[-1]
    assert "7.00 core hours; with --slots 2 3.50 hours and 1,600 MiB" in said


def test_images_that_are_not_there_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = yaml.safe_load(TINY.read_text())
    study["data"] = {"source": "folder", "root": str(tmp_path / "nowhere")}
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(study))
    assert main(["estimate", "--config", str(tmp_path / "study.yaml"), "--device", "cpu"]) == 2
    assert f"error: data folder: {tmp_path}/nowhere: no such folder" in capsys.readouterr().err


@pytest.mark.parametrize("system", ["pctc", "federated"])
def test_other_systems_are_refused(system: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["estimate", "--config", str(ROOT / f"tests/configs/tiny_{system}.yaml")]) == 2
    out, errors = capsys.readouterr()
    assert out == ""
    assert f"this is a study of {system}" in errors
