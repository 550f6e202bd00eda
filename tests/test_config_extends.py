"""Files that extend others: what they stand for, and what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from cemlib.config import ConfigError, load, parse
from cemlib.config.base import Section
from cemlib.config.extending import changed, merged, read_extended, resolved

BASE: dict[str, Any] = {
    "experiment": "base",
    "seeds": [0, 1],
    "data": {"source": "cifar10", "train_limit": 100},
    "defences": {"noise": {}, "gated": {"surrogate": {"name": "gated", "lambda": 4}}},
    "attacks": {"decoder": {"epochs": 2}, "linear": {}},
}


def written(folder: Path, name: str, raw: Any) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(raw, sort_keys=False))
    return path


# The examples of RFC 7396, appendix A, but those whose patch is no mapping.
@pytest.mark.parametrize(
    ("below", "above", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_merging_is_a_json_merge_patch(below: Any, above: Any, result: Any) -> None:
    kept = json.dumps(below)
    assert merged(below, above) == result
    assert json.dumps(below) == kept


def test_a_file_may_say_only_how_it_differs(tmp_path: Path) -> None:
    written(tmp_path, "base.yaml", BASE)
    other = {
        "extends": "../base.yaml",
        "experiment": "other",
        "seeds": [3],
        "data": {"train_limit": None, "test_limit": 50},
        "defences": {"noise": None, "gated": {"surrogate": {"lambda": 8}}},
        "attacks": {"decoder": {"width": 16}},
    }
    study = load(written(tmp_path, "short/other.yaml", other))
    whole = BASE | {
        "experiment": "other",
        "seeds": [3],
        "data": {"source": "cifar10", "test_limit": 50},
        "defences": {"gated": {"surrogate": {"name": "gated", "lambda": 8}}},
        "attacks": {"decoder": {"epochs": 2, "width": 16}, "linear": {}},
    }
    assert study == parse(whole)
    assert list(study.attacks) == ["decoder", "linear"]


def test_of_several_files_the_later_one_wins(tmp_path: Path) -> None:
    study = {"extends": "base.yaml", "seeds": [5], "threads": 2, "attacks": {"linear": None}}
    short = {"seeds": [6], "attacks": {"decoder": {"epochs": 1}}}
    for name, raw in {"base": BASE, "study": study, "short": short}.items():
        written(tmp_path, f"{name}.yaml", raw)
    both = written(tmp_path, "both.yaml", {"extends": ["study.yaml", "short.yaml"]})
    expected = {"seeds": [6], "threads": 2, "attacks": {"decoder": {"epochs": 1}}}
    assert read_extended(both) == BASE | expected


def test_snakemakes_configuration_is_resolved_the_same(tmp_path: Path) -> None:
    """Also with the words of `--config`, and with a `null` in a file that extends nothing."""
    written(tmp_path, "base.yaml", BASE)
    patch = {"extends": "base.yaml", "experiment": "b", "defences": {"noise": None}}
    file = written(tmp_path, "b.yaml", patch)
    assert parse(resolved([file], ())) == load(file)
    words = ["seeds=[0, 4]", 'train={"epochs": 3}', "reference=null"]
    words.append("data={root: '2024 #1'}")
    found = parse(resolved([file], words))
    assert (found.seeds, found.train.epochs, found.reference) == ((0, 4), 3, None)
    assert found.data.root == "2024 #1"
    short = BASE | {"attacks": {"decoder": None, "mean_image": {}}}
    file_of_short = written(tmp_path, "short.yaml", short)
    assert parse(resolved([file_of_short], ())) == load(file_of_short)
    assert list(load(file_of_short).attacks) == ["decoder", "mean_image"]
    with pytest.raises(ConfigError, match="extends: belongs in a file"):
        resolved([file], ["extends=other.yaml"])
    with pytest.raises(ConfigError, match=r"--config seeds=\[1: not a YAML file"):
        resolved([file], ["seeds=[1"])


def test_taking_a_key_away_is_setting_it_to_null() -> None:
    """Where `null` is allowed it is the default, or else a patch could not say it."""
    waiting = [Section]  # and those of every system, which are imported by now
    while waiting:
        section = waiting.pop()
        waiting.extend(section.__subclasses__())
        for name, field in section.model_fields.items():
            if type(None) in getattr(field.annotation, "__args__", ()):
                assert field.default is None, f"{section.__name__}.{name}"


def test_values_are_set_from_the_command_line_as_a_file_would(tmp_path: Path) -> None:
    path = written(tmp_path, "base.yaml", BASE)
    changes = ["threads=2", "defences.gated.surrogate.lambda=8", "seeds=[3]", "attacks.linear=null"]
    other = {
        "extends": "base.yaml",
        "threads": 2,
        "defences": {"gated": {"surrogate": {"lambda": 8}}},
        "seeds": [3],
        "attacks": {"linear": None},
    }
    assert load(path, changes) == load(written(tmp_path, "other.yaml", other))
    with pytest.raises(
        ConfigError, match=r"base\.yaml: train\.lrr: unknown key; did you mean 'lr'"
    ):
        load(path, ["train.lrr=1"])
    path.write_text("- experiment: x")
    with pytest.raises(ConfigError, match=r"base\.yaml: expected a mapping of keys, found list"):
        load(path, ["experiment=x"])


@pytest.mark.parametrize(
    "change", ["train.lr", "=1", "train..lr=1", "a=[1", "a={b: 1, b: 2}", "a="]
)
def test_a_change_of_another_form_is_named(change: str) -> None:
    with pytest.raises(ConfigError) as caught:
        changed(BASE, [change])
    assert str(caught.value).startswith(f"--set {change}: ")


@pytest.mark.parametrize(
    ("files", "parts"),
    [
        ({"a.yaml": {"extends": "a.yaml"}}, ["a.yaml: extends: ", "leads back to itself"]),
        (
            {"a.yaml": {"extends": "b.yaml"}, "b.yaml": {"extends": "./a.yaml"}},
            ["b.yaml: extends: ", "a.yaml -> b.yaml -> a.yaml"],
        ),
        ({"a.yaml": {"extends": "b.yaml"}}, ["b.yaml: no such configuration file"]),
        ({"a.yaml": {"extends": "."}}, ["cannot be read: Is a directory"]),
        ({"a.yaml": {"extends": ["b.yaml", 3]}}, ["expected a file or a list", "['b.yaml', 3]"]),
        ({"a.yaml": {"extends": []}}, ["expected a file or a list of files, found []"]),
        (
            {"a.yaml": {"extends": "b.yaml"}, "b.yaml": [1]},
            ["a.yaml: extends: 'b.yaml' holds no map"],
        ),
    ],
)
def test_what_cannot_be_extended_is_named(tmp_path: Path, files: Any, parts: list[str]) -> None:
    for name, raw in files.items():
        written(tmp_path, name, raw)
    with pytest.raises(ConfigError) as caught:
        load(tmp_path / "a.yaml")
    assert len(str(caught.value).splitlines()) == 1
    for part in parts:
        assert part in str(caught.value)
