"""Whatever a configuration can name is rehearsed for its memory."""

from typing import Any

import pytest

from cemlib.attacks import ATTACKS
from cemlib.config import parse
from cemlib.config.study import JUDGE
from cemlib.defences.channels import CHANNELS
from cemlib.defences.penalties import PENALTIES
from cemlib.memory.attacks import attacks
from cemlib.memory.facts import facts
from cemlib.memory.training import training
from cemlib.plan import Plan
from cemlib.surrogates import SURROGATES

LOCAL_DP = {"name": "local_dp", "epsilon": 5000, "clip": 300}
STUDY: dict[str, Any] = {
    "experiment": "everything",
    "seeds": [0],
    "data": {"source": "digits", "image_size": 16, "train_limit": 300, "test_limit": 100},
    "model": {"name": "small", "cut": 3},
    "train": {"epochs": 1, "batch_size": 64, "milestones": [1]},
    "defences": {
        **{name: {"surrogate": name} for name in SURROGATES},
        **{f"by_{name}": {"channel": name} for name in CHANNELS if name != "local_dp"},
        "by_local_dp": {"noise_std": 0.0, "channel": LOCAL_DP},
        **{f"with_{name}": {"penalty": name} for name in PENALTIES},
    },
    "attacks": {
        **{kind: {"kind": kind} for kind in ATTACKS},
        "refinement": {"kind": "optimisation", "start": "decoder"},
        "linear_4": {"kind": "linear", "queries": 4},
    },
}


@pytest.fixture(scope="module")
def plan() -> Plan:
    return Plan(parse(STUDY))


def test_every_training_is_rehearsed(plan: Plan) -> None:
    found = facts(plan)
    tops = {name: training(plan.study, found, name).top for name in plan.study.defences}
    plain = training(plan.study, found, JUDGE).top
    # Their weights and statistics come on top of the network's own.
    assert all(tops[name] > plain for name in ("slot", "parallel", "shortcut", "gmm"))
    assert tops["parallel"] > tops["gated"]


@pytest.mark.parametrize("kind", ATTACKS)
def test_every_attack_is_rehearsed(plan: Plan, kind: str) -> None:
    assert_rehearsed(plan, "by_noise", kind)


@pytest.mark.parametrize("defence", [f"by_{name}" for name in CHANNELS if name != "noise"])
def test_attacks_are_rehearsed_on_every_channel(plan: Plan, defence: str) -> None:
    for name in ("linear_4", "refinement"):
        assert_rehearsed(plan, defence, name)


def assert_rehearsed(plan: Plan, defence: str, attack: str) -> None:
    found = facts(plan)
    images = sum(found.counts.values()) * found.image_bytes
    assert attacks(plan.study, found, defence, (attack,)).most > images
