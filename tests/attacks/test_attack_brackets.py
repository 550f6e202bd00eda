"""The two ends between which every result lies, on real digits: nothing hidden, and everything."""

from pathlib import Path
from typing import Any

import pytest

from cemlib.config import parse
from cemlib.config.study import JUDGE, JUDGE_SEED
from cemlib.data.prepare import prepare
from cemlib.data.prepared import load, save
from cemlib.evaluation.job import run as attack
from cemlib.records.files import load_tensors, read_json, save_tensors
from cemlib.records.layout import RunFolder
from cemlib.records.seal import write_sealed
from cemlib.study.plan import Plan
from cemlib.study.split import attack_job, train_job
from cemlib.training.job import run

DECODER = {"epochs": 6, "batch_size": 32, "lr": 0.02, "blocks": 1, "width": 16}
# A third of all the time, for what the decoder shows as well.
PERCEPTUAL = pytest.param("perceptual", 0.1, marks=pytest.mark.slow)
RAW: dict[str, Any] = {
    "experiment": "brackets",
    "seeds": [0],
    "data": {"source": "digits", "image_size": 16, "train_limit": 1000, "test_limit": 100},
    "model": {"name": "small", "cut": 3},
    "train": {"epochs": 4, "milestones": [3]},
    "defences": {"none": {"noise_std": 0.0}, "constant": {}},
    "attacks": {
        "decoder": DECODER,
        "perceptual": DECODER,
        "optimisation": {"iterations": 40, "lr": 0.05},
        "refinement": {"kind": "optimisation", "start": "decoder", "iterations": 10},
        "random_features": {"features": 256},
        "linear": {},
        "mean_image": {},
    },
}


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    """An undefended classifier, and one whose client says the same of every image.

    Each is attacked when a test first asks for the error.
    """
    plan = Plan(parse(RAW | {"results": str(tmp_path_factory.mktemp("brackets"))}), device="cpu")
    save(prepare(plan.study.data), plan.layout.data)
    for defence, seed in (("none", 0), ("constant", 0), (JUDGE, JUDGE_SEED)):
        run(train_job(plan, defence, seed))
    blind(plan.layout.run("constant", 0))
    return plan


def blind(folder: RunFolder) -> None:
    """Make a run's client say the same of every image, as if it had been trained so."""
    weights = load_tensors(folder.model)
    bottleneck = {name for name in weights if name.startswith("encoder.2.")}
    save_tensors(folder.model, weights | {name: 0 * weights[name] for name in bottleneck})
    record = read_json(folder.metrics)
    write_sealed(folder.metrics, record, [folder.model])


def error(plan: Plan, defence: str, attack_name: str) -> float:
    metrics: Path = plan.layout.run(defence, 0).attack(attack_name, "train_data").metrics
    if attack_name in ("refinement", "random_features"):
        error(plan, defence, "decoder")  # from which it starts
    if not metrics.is_file():
        list(attack(attack_job(plan, defence, 0, [attack_name])))
    return float(read_json(metrics)["mse"])


@pytest.mark.parametrize(
    ("attack_name", "share"),
    [
        ("decoder", 0.1),
        PERCEPTUAL,
        ("refinement", 0.1),
        ("random_features", 0.1),
        ("optimisation", 0.6),
    ],
)
def test_nothing_hides_an_undefended_image(plan: Plan, attack_name: str, share: float) -> None:
    assert error(plan, "none", attack_name) < share * error(plan, "none", "mean_image")


@pytest.mark.parametrize(
    ("attack_name", "share"),
    [("decoder", 0.03), ("refinement", 0.03), ("random_features", 0.03), PERCEPTUAL],
)
def test_a_constant_client_leaves_the_mean_image(
    plan: Plan, attack_name: str, share: float
) -> None:
    """The perceptual attack pays with a little error for features that look right."""
    ceiling = error(plan, "constant", "mean_image")
    assert error(plan, "constant", attack_name) == pytest.approx(ceiling, rel=share)


def test_ridge_regression_on_a_constant_client_is_the_mean_image(plan: Plan) -> None:
    """Its noise is all there is to fit: with N samples of D features of pure noise, least squares
    adds D / (N - D - 1) times the ceiling.
    """
    ceiling = error(plan, "constant", "mean_image")
    samples, dim = len(load(plan.layout.data).train), 512
    worst = ceiling * (1 + dim / (samples - dim - 1))
    assert ceiling <= error(plan, "constant", "linear") < 1.05 * worst
