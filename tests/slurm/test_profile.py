"""What of profiles/slurm can be seen without Slurm."""

from typing import Any

import yaml
from checkout import REPOSITORY

from cemlib.study.rules import JobRule, Planned
from cemlib.study.systems import read_study


def read(name: str) -> dict[str, Any]:
    text = (REPOSITORY / "profiles" / name / "config.yaml").read_text(encoding="utf-8")
    profile: dict[str, Any] = yaml.safe_load(text)
    return profile


def test_it_says_all_that_the_profile_says_which_it_replaces() -> None:
    default, slurm = read("default"), read("slurm")
    assert {name: slurm.get(name) for name in default} == default


def test_it_names_every_rule_with_a_card_and_none_that_is_not_there() -> None:
    """A renamed rule would run with the times of a short one, and one forgotten without a card."""
    rules: list[JobRule] = []
    for system, prefix in (("config", ""), ("pctc", "pctc_"), ("federated", "federated_")):
        file = REPOSITORY / f"config/{system}.yaml"
        rules += Planned(system, prefix, *read_study(file), file).rules
    asked = read("slurm")["set-resources"]
    assert set(asked) <= {rule.name for rule in rules}
    cards = {rule.name for rule in rules if rule.gpu}
    assert {name for name, resources in asked.items() if "gpu" in resources} == cards
