"""Settings that would be programs if a shell read them: refused by key, or plain text for good."""

import copy
import re
from pathlib import Path
from typing import Any

import pytest
import short_study
from checkout import Checkout

from cemlib.config import ConfigError, parse

STUDY: dict[str, Any] = short_study.STUDY | {
    "experiment": "x",
    "defences": {"noise": {}},
    "attacks": {"linear": {}, "mean_image": {}},
}
PROGRAMS = ["x; touch pwned", "$(touch pwned)", "`touch pwned`", "x' 'y", 'x"; touch "pwned']
PROGRAMS += ["x\ntouch pwned", "x > pwned", "x && touch pwned", "../pwned", "-x", "a b", "{x}", "*"]
PROGRAMS += ["%(x)s", "é", "", "x" * 61, "\0", "x|touch pwned", "\\", "$HOME", "~"]


def renamed(key: str, name: str) -> dict[str, Any]:
    study = copy.deepcopy(STUDY)
    if key in ("defences", "attacks"):
        study[key][name] = {"kind": "linear"} if key == "attacks" else {}
    elif key == "start":
        study["attacks"]["mine"] = {"kind": "gan", "start": name}
    else:
        study[key] = name
    return study


@pytest.mark.parametrize("key", ["experiment", "reference", "defences", "attacks", "start"])
def test_no_name_is_a_program(key: str) -> None:
    for name in PROGRAMS:
        with pytest.raises(ConfigError) as caught:
            parse(renamed(key, name))
        assert key in str(caught.value)


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    return Checkout.create(tmp_path_factory.mktemp("settings") / "checkout")


@pytest.mark.parametrize("path", ["a{b}", "{", "a}}b", "-x"])
def test_no_path_is_a_wildcard_or_an_option(path: str) -> None:
    with pytest.raises(ConfigError, match="results: "):
        parse(STUDY | {"results": path})
    study = renamed("results", "out")
    study["attacks"]["mine"] = {"kind": "perceptual", "pretrained": f"{path}{{}}"}
    with pytest.raises(ConfigError, match=r"attacks\.mine\.pretrained: "):
        parse(study)


HOSTILE = "r; touch pwned $(touch pwned) `touch pwned` 'a' \"c\" * é |&>x #%(y)s \\ $HOME"


@pytest.mark.slow
def test_a_path_that_a_shell_would_run_holds_the_results(checkout: Checkout) -> None:
    before = {path.name for path in checkout.root.iterdir()}
    checkout.configure(renamed("results", HOSTILE))
    outcome = checkout.snakemake()
    assert outcome.code == 0, outcome.output
    assert (checkout.root / HOSTILE / "x/tables/summary.csv").is_file()
    root = checkout.root
    assert [*root.rglob("pwned"), *root.parent.glob("pwned")] == []
    ours = {HOSTILE, ".snakemake", "mlflow.db", "mlflow.db.lock", "mlartifacts", "study.yaml"}
    assert {path.name for path in root.iterdir()} - before <= ours


@pytest.mark.slow  # quick tests show that it reads with `resolved`, and that faults stop it
@pytest.mark.parametrize("given", [True, False])
def test_snakemake_refuses_a_key_given_twice(
    checkout: Checkout, tmp_path: Path, given: bool
) -> None:
    """Also in the embedded study."""
    mine, file = checkout, "study.yaml" if given else "config/config.yaml"
    if given:
        mine.configure(STUDY)
    else:
        mine = checkout.copy(tmp_path / "checkout")
    mine.append(file, "\nseeds: [1]\n")
    outcome = mine.snakemake("-n", config=file if given else None)
    assert outcome.code != 0
    assert re.search(rf"{file}: line \d+: key 'seeds' is given twice", outcome.output)
    assert "Traceback" not in outcome.output
    assert outcome.jobs == []
