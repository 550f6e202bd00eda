"""Configurations that went wrong: usable, or refused in lines that name the file or the key."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deadlines import watchdog
from hypothesis import HealthCheck, given, settings
from mutated_configs import values

from cemlib.cli import main
from cemlib.config import ConfigError, Study, load, parse
from cemlib.study.plan import Plan
from cemlib.study.split import jobs

FEW, MANY = 60, 1500
VALID = "experiment: x\ndata: {source: digits}\ndefences: {n: {}}\nattacks: {linear: {}}\n"


def explore(strategy: Any, count: int, check: Callable[[Any], str]) -> Counter[str]:
    """Check so many examples, the same ones every time, and count what became of them."""
    became = Counter[str]()

    @settings(
        max_examples=count,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def one(example: Any) -> None:
        became[check(example)] += 1

    one()
    assert became.total() >= count
    return became


def list_jobs(study: Study) -> None:
    """A dry run: every job with those it waits for, and the files of the plan."""
    plan, seen = Plan(study), set[str]()
    for job in jobs(plan):
        assert job.needs <= seen, job.name
        assert job.name not in seen
        seen.add(job.name)
    runs = len(study.defences) * len(study.seeds)
    attacks = len(study.learned_attacks()) + bool(study.closed_form_attacks())
    assert sum(name.startswith(("train/", "attack/")) for name in seen) == runs * (1 + attacks)
    written = [file for job in jobs(plan) for file in job.outputs]
    assert len(set(written)) == len(written)
    for defence in study.defences:
        json.dumps([study.attack_slice(defence, attack) for attack in study.attacks])


def usable(read: Callable[[], Study], names_a_place: Callable[[str], bool]) -> str:
    """Whether the jobs of what is read can be listed; if not, every line must name a place."""
    with watchdog():
        try:
            study = read()
        except ConfigError as error:
            lines = str(error).splitlines()
            assert lines
            assert [line for line in lines if not names_a_place(line)] == []
            return "refused"
        list_jobs(study)
        return "accepted"


def check_values(raw: Any) -> str:
    def names_a_key(line: str) -> bool:
        keys = {*Study.model_fields, *raw, "configuration"}
        return any(line.startswith((f"{key}: ", f"{key}.")) for key in keys)

    return usable(lambda: parse(raw), names_a_key)


def check_file(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    return usable(lambda: load(path), lambda line: line.startswith(f"{path}: "))


@pytest.mark.parametrize("count", [FEW, pytest.param(MANY, marks=pytest.mark.slow)])
def test_values_are_judged_alike_in_a_json_file(tmp_path: Path, count: int) -> None:
    """Snakemake hands values over, the jobs read them from a file."""

    def check(raw: Any) -> str:
        became = check_file(tmp_path / "s.json", json.dumps(raw).encode())
        assert became == check_values(raw)
        return became

    became = explore(values(), count, check)
    assert became["accepted"] > count / 50
    assert became["refused"] > count / 2


FAULTY: dict[str, tuple[str, list[str]]] = {
    "twice": ("train: {epochs: 1, lr: 0.1, epochs: 2}\n", ["line 5", "'epochs' is given twice"]),
    "twice, quoted": ('seeds: [0]\n"seeds": [1]\n', ["line 6", "'seeds'", "first on line 5"]),
    "twice in an anchor": ("x: &x {a: 1, a: 2}\ntrain: *x\n", ["line 5", "'a' is given twice"]),
    "template": ("__use_yte__: true\n", ["__use_yte__", "unknown key"]),
    "date": ("threads: 2026-01-01\n", ["threads", "2026-01-01"]),
    "no number": ("threads: !!int x\n", ["not a YAML file"]),
    "infinite": ("model: {cut: .inf}\n", ["model.cut", "inf"]),
    "no number at all": ("train: {lr: .nan}\n", ["train.lr", "nan"]),
    "a key that is no text": ("no: 1\n", ["line 5", "'no' is not text", "quotes"]),
    "a family called off": (
        "sweeps: {off: {over: {lambda: [1]}}}\n",
        ["line 5", "'off' is not text"],
    ),
    "a key that is a date": ("2020-01-01: 1\n", ["line 5", "'2020-01-01' is not text"]),
    "a date in a sweep": (
        "sweeps: {a: {surrogate: logdet, over: {lambda: [2020-01-01]}}}\n",
        ["sweeps.a.over.lambda", "2020-01-01"],
    ),
    "a system that is a list": ("system: [split]\n", ["system: ['split'] is not one of"]),
    "a faulty element": ("seeds: [-1]\n", ["seeds.0", "found -1"]),
    "a key that is a list": ("? [a]\n: 1\n", ["line 5", "unhashable key"]),
    "contains itself": ("train: &a\n  epochs: *a\n", ["not a YAML file", "Circular reference"]),
    "nested deeply": ("train: " + "[" * 3000 + "]" * 3000, ["not a YAML file", "recursion"]),
    "second document": ("---\nexperiment: y\n", ["document"]),
}
REPLACED: dict[str, tuple[bytes, list[str]]] = {
    "empty": (b"", ["expected a mapping", "NoneType"]),
    "list": (b"- experiment: x\n", ["expected a mapping", "list"]),
    "latin-1": (VALID.encode() + "results: café\n".encode("latin-1"), ["UTF-8"]),
    "zero byte": (VALID.encode() + b"\0", ["not a YAML file"]),
    "tab": (VALID.encode() + b"train:\n\tepochs: 1\n", ["not a YAML file", "line 6"]),
}
CASES = {name: ((VALID + text).encode(), words) for name, (text, words) in FAULTY.items()}
CASES |= REPLACED


def refused(path: Path) -> str:
    with watchdog(), pytest.raises(ConfigError) as caught:
        load(path)
    assert all(line.startswith(f"{path}: ") for line in str(caught.value).splitlines())
    return str(caught.value)


@pytest.mark.parametrize("name", CASES)
def test_a_faulty_file_is_refused_in_one_line(tmp_path: Path, name: str) -> None:
    content, words = CASES[name]
    path = tmp_path / "s.yaml"
    path.write_bytes(content)
    message = refused(path)
    assert [word for word in words if word not in message] == [], message
    assert len(message.splitlines()) == 1
    assert message.isprintable()
    assert len(message) < 600


def test_json_keys_must_differ_too(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    path.write_text('{"experiment": "x", "train": {"lr": 1, "lr": 2}}')
    assert "key 'lr' is given twice" in refused(path)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    assert "Is a directory" in refused(tmp_path)
    (tmp_path / "loop.yaml").symlink_to("loop.yaml")
    assert "cannot be read" in refused(tmp_path / "loop.yaml")


def test_anchors_and_merges_go_on_working(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    shared = "train: &t {epochs: 3, lr: 0.1}\n"
    path.write_text(f"{VALID}{shared}".replace("defences: {n: {}}", "defences: {n: &n {}, m: *n}"))
    assert list(load(path).defences) == ["n", "m"]
    merged = VALID.replace("{n: {}}", "{n: &n {noise_std: 1.0, sparse_coding: true}}")
    path.write_text(merged.replace("true}}", "true}, m: {<<: *n, noise_std: 2.0}}"))
    assert load(path).defences["m"].noise_std == 2.0
    assert load(path).defences["m"].sparse_coding


@pytest.mark.parametrize("command", ["prepare", "train", "attack", "report", "track", "run"])
def test_every_command_refuses_alike(
    tmp_path: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "study.yaml"
    path.write_text(VALID + "train: {epochs: 0}\nseeds: [0, 0]\n")
    assert main([command, "--config", str(path)]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert [line.split(": ")[:3:2] for line in said.err.splitlines()] == [
        ["error", "seeds"],
        ["error", "train.epochs"],
    ]
