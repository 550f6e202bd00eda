"""What of profiles/slurm can be seen without Slurm."""

import re
from typing import Any

import yaml
from checkout import REPOSITORY


def read(name: str) -> dict[str, Any]:
    text = (REPOSITORY / "profiles" / name / "config.yaml").read_text(encoding="utf-8")
    profile: dict[str, Any] = yaml.safe_load(text)
    return profile


def test_it_says_all_that_the_profile_says_which_it_replaces() -> None:
    default, slurm = read("default"), read("slurm")
    assert {name: slurm.get(name) for name in default} == default


def test_it_names_every_rule_with_a_card_and_none_that_is_not_there() -> None:
    """A renamed rule would run with the times of a short one, and one forgotten without a card."""
    files = (REPOSITORY / "workflow/rules").glob("*.smk")
    parts = re.split(r"^ *rule (\w+):$", "".join(f.read_text() for f in files), flags=re.MULTILINE)
    rules = dict(zip(parts[1::2], parts[2::2], strict=True))
    asked = read("slurm")["set-resources"]
    assert set(asked) <= set(rules)
    cards = {name for name, body in rules.items() if "gpu=" in body}
    assert {name for name, resources in asked.items() if "gpu" in resources} == cards
