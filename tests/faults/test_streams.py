"""One seed decides every number, by random streams that have a name and one purpose each."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cemlib.config.study import JUDGE_SEED
from cemlib.numerics.seeds import derive

OF_DATA = {"data/test", "data/val"}  # splits, and the order of their images
OF_DATA |= {f"data/{part}_order" for part in ("train", "val", "test")}
OF_TRAINING = {
    "model": "initial weights of the networks",
    "surrogate_init": "initial weights of the surrogate",
    "penalty_init": "initial weights of the penalty",
    "order": "order of the training images",
    "augment": "augmentation",
    "noise": "noise and random channel in training steps",
    "dropout": "dropout inside networks",
    "surrogate": "draws of the surrogate",
    "val_noise": "release of the held-out images",
    "test_noise": "release of the test images",
}
OF_ATTACKS = {
    "attacker": "initial weights of the decoder",
    "critic": "initial weights of the critic",
    "attack_order": "order of the attacker's images",
    "attack_noise": "releases of the attacker's images",
    "attack_val_noise": "one release of the images that the attacker holds out",
    "attack_ridge_noise": "one release of the same images, to choose the penalty of a regression",
    "attack_share_noise": "another of them, to choose the share of the two answers",
    "attack_mixtures": "mixtures of real images and answers",
    "random_features": "random features of a regression",
    "denoiser": "seed of the denoiser of an optimisation",
}
NAMES = ("decoder", "gan", "refinement", "random_features", "linear", "mean_image")
KNOWN = ("train_data", "public_data")
OF_RUNS = {f"attack/{name}/{known}" for name in NAMES for known in KNOWN}
OF_RUNS |= {f"{what}/{known}" for what in ("target", "recognition") for known in KNOWN}

RECOGNISED = {f"{name} recognised" for name in NAMES}
OF_MEAN_IMAGE = {f"mean_image {part}" for part in ("attacker", "history", "scores", "recognised")}


def recorded(place: Path, salt: int, *cases: str) -> dict[str, Any]:
    """Each case's calls and results, from a process with other global seeds."""
    program = Path(__file__).with_name("recorded_streams.py")
    done = subprocess.run(
        [sys.executable, str(program), str(place), str(salt), *cases],
        env=os.environ | {"PYTHONHASHSEED": str(salt)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("streams")


@pytest.fixture(scope="module")
def plain(place: Path) -> dict[str, Any]:
    """The study with seed 1."""
    return dict(recorded(place, 1, "1")["1"])


@pytest.fixture(scope="module")
def others(place: Path) -> dict[str, Any]:
    """The same from another process, and with another seed."""
    return recorded(place, 2, "1", "0")


def test_every_stream_is_known_by_name(plain: dict[str, Any]) -> None:
    """A new stream belongs into the tables above, under a name that no other has."""
    assert not OF_TRAINING.keys() & OF_ATTACKS.keys()
    names = {stream for _, stream, _, _, _ in plain["calls"]}
    assert names == {*OF_TRAINING, *OF_ATTACKS} | OF_DATA | OF_RUNS


def test_a_stream_has_one_purpose(plain: dict[str, Any]) -> None:
    """The same seed, name and step are asked for in one place of the code only."""
    askers: dict[tuple[int, str, int], set[str]] = {}
    for seed, stream, step, where, _ in plain["calls"]:
        askers.setdefault((seed, stream, step), set()).add(where)
    assert {stream: found for stream, found in askers.items() if len(found) > 1} == {}
    numbers = {number for *_, number in plain["calls"]}
    assert len(numbers) == len(askers)


def seeds_of_attacks(seed: int) -> set[int]:
    """Those of the attacks of a run, and of their denoisers."""
    found = {derive(seed, stream) for stream in OF_RUNS if stream.startswith("attack/")}
    return found | {derive(attack, "denoiser") for attack in found}


def seeds_used(calls: list[tuple[int, str, int, str, int]], of_data: bool) -> set[int]:
    return {seed for seed, stream, *_ in calls if stream.startswith("data/") is of_data}


def test_every_seed_comes_from_the_one_of_the_run(plain: dict[str, Any]) -> None:
    """Except those of the splits: every run has the same data."""
    assert seeds_used(plain["calls"], of_data=True) == {0}  # data.split_seed
    used = seeds_used(plain["calls"], of_data=False)
    assert used - seeds_of_attacks(1) == {1, JUDGE_SEED}


@pytest.mark.slow
def test_nothing_is_drawn_from_elsewhere(plain: dict[str, Any], others: dict[str, Any]) -> None:
    """Other global seeds of Python, NumPy and torch, and another order of sets: the same bits."""
    assert others["1"] == plain


@pytest.mark.slow
def test_another_seed_gives_other_results(plain: dict[str, Any], others: dict[str, Any]) -> None:
    one, other = plain["parts"], others["0"]["parts"]
    same = {name for name in one if one[name] == other[name]}
    unseeded = {"splits", "run clusters", "run config", "linear history"}
    unseeded |= OF_MEAN_IMAGE | {"refinement attacker"}  # its settings: a few numbers to choose of
    assert same <= unseeded | RECOGNISED
