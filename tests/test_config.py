"""The configuration: what is accepted, what each job depends on, and what an error says."""

import copy
import re
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
import yaml

from cemlib.config import ConfigError, parse
from cemlib.config.base import Section
from cemlib.config.load import SYSTEMS, load_as, parse_any
from cemlib.study.plan import Plan
from cemlib.study.requirements import requirements
from docs.generated import reference

ROOT = Path(__file__).parents[1]
VALID: dict[str, Any] = {
    "experiment": "test",
    "seeds": [0, 1],
    "data": {"source": "digits", "image_size": 16},
    "defences": {
        "noise": {},
        "gated": {"surrogate": "gated"},
        "clustering": {"surrogate": {"name": "clustering", "lambda": 4}},
    },
    "attacks": {"decoder": {"epochs": 2}, "linear": {}},
}
SURROGATE = "defences.gated.surrogate"


def changed(changes: str) -> dict[str, Any]:
    """VALID with YAML at dotted paths, `path=value; other=value`; a path alone is taken away."""
    raw = copy.deepcopy(VALID)
    for change in changes.split("; "):
        path, given, value = change.partition("=")
        *parents, last = path.split(".")
        at = raw
        for key in parents:
            at = at.setdefault(key, {})
        if given:
            at[last] = yaml.safe_load(value)
        else:
            del at[last]
    return raw


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ("train.epoch=3", ["train.epoch", "unknown key", "did you mean 'epochs'"]),
        ("train.epochs=0", ["train.epochs", "greater than or equal to 1", "found 0"]),
        ("train.lr=1e-3", ["train.lr", "the text '1e-3'", "1.0e-3"]),
        ("train.lr=abc", ["train.lr: Input should be a valid number, found 'abc'"]),
        ("train.milestones=[0]", ["train.milestones.0", "found 0"]),
        (f"{SURROGATE}={{lambda: 5}}", [f"{SURROGATE}.name: missing; add it"]),
        (
            f"{SURROGATE}={{name: gated, momnets: raw}}",
            [f"{SURROGATE}.momnets", "did you mean 'moments'"],
        ),
        ("data.source=cifar", ["data.source", "'cifar' is not one of", "did you mean 'cifar10'"]),
        ("data.channels=2", ["data.channels: 2 is not one of 1, 3"]),
        ("attacks.decodr={}", ["attacks.decodr", "unknown name 'decodr'", "mean 'decoder'"]),
        ("attacks.decoder.width=-1", ["attacks.decoder.width", "found -1"]),
        ("seeds=[0, 1, 0]", ["seeds", "[0] are listed twice"]),
        ("seeds=[]", ["seeds"]),
        ("report={match_accuracy: [90, 80, 90.0]}", ["report.match_", "[90.0] are listed"]),
        ("report={match_accuracy: [101.0]}", ["report.match_accuracy.0", "found 101.0"]),
        ("report={match_accuracy: [0.95]}", ["report.match_accuracy.0", "found 0.95"]),
        (
            "report={match_accuracy: [95.0]}",
            ["report.match_accuracy: ", "without `sweeps`; leave it out"],
        ),
        ("experiment=my-study", ["experiment: ", "'my-study'", "letters, digits and _"]),
        ("reference=s; sweeps={s: {over: {noise_std: [0.1]}}}", ["reference: 's' is a sweep"]),
        ("train.milestones=[3, 9, 3]", ["train.milestones: ", "[3] are listed twice"]),
        ("defences.noise.train={epochs: null}", ["defences.noise.train.epochs"]),
        ("defences.noise.train={augment: {flip: null}}", ["defences.noise.train.augment.flip"]),
        ("defences.noise.model={bottleneck: null}", ["defences.noise.model.bottle"]),
        (
            f"{SURROGATE}={{name: clustering, form: batch, gamma: 0.5}}",
            [f"{SURROGATE}: ", "gamma is 0.5; form 'batch' allows only 0.01"],
        ),
        (f"{SURROGATE}={{name: clustering, gate: linear, gamma: 0.5}}", ["gamma has no effect"]),
        ("defences.g={surrogate: logdet, noise_std: 0}", ["defences.g: noise_std is 0, but"]),
        ("train={momentum: 0, nesterov: true}", ["train: nesterov has no effect"]),
        ("experiment=published", ["experiment: ", "'published' is the name of a folder"]),
        ("defences.attacks={}", ["defences.attacks", "'attacks' is the name of a folder"]),
        ("reference=nothing", ["reference", "'nothing' is not among"]),
        ("defences.train={}", ["defences", "['train'] are names of workflow targets"]),
        ("data", ["data: missing; add it"]),
        ("data.image_size=32.0", ["data.image_size", "found 32.0"]),
        ("defences.noise.model={ct: 3}", ["defences.noise.model.ct", "mean 'cut'"]),
        ("defences.noise.train={lr: 0}", ["defences.noise.train.lr", "found 0"]),
        (
            "model={name: resnet20}; defences={a: {pruning: {epoch: 1}}}",
            ["defences.a.pruning: ", "resnet20"],
        ),
        ("attacks={linear: {queries: 4}}", ["attacks: at least one must see a single release"]),
        (
            "attacks={decoder: {}, gan: {queries: 4}}",
            ["attacks.gan.queries: 4, but the decoder ", "(decoder) was trained on 1"],
        ),
        ("attacks.worst_case_4={kind: linear}", ["worst_case_4", "choose another"]),
        ("attacks.ceiling={kind: mean_image}", ["attacks.ceiling: ", "call that one mean_image"]),
        ("attacks.mean_image={kind: linear}", ["attacks.mean_image: ", "and no other"]),
        *(
            (f"attacks={{{attacks}}}", ["attacks.gan.start: '", "' is not an attack listed"])
            for attacks in (
                *("gan: {}", "linear: {}, gan: {start: linear}", "gan: {}, decoder: {}"),
                "decoder: {knows_class: true}, gan: {}",
            )
        ),
    ],
)
def test_a_fault_is_named_by_its_key(changes: str, parts: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(changed(changes))
    for part in parts:
        assert part in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_a_slice_has_no_place_of_the_images() -> None:
    moved = parse(changed("data.root=/elsewhere"))
    assert parse(VALID).train_slice("gated") == moved.train_slice("gated")


def test_a_defence_may_have_a_network_and_a_training_of_its_own() -> None:
    own = {"model": {"cut": 2}, "train": {"augment": {"flip": False}, "epochs": 3}}
    study = parse(VALID | {"defences": {"noise": {}, "other": own}})
    assert (study.network("noise"), study.training("noise")) == (study.model, study.train)
    assert study.network("other") == study.model.model_copy(update={"cut": 2})
    augment = study.train.augment.model_copy(update={"flip": False})
    assert study.training("other") == study.train.model_copy(
        update={"epochs": 3, "augment": augment}
    )
    alone = parse(VALID | {"defences": {"other": {}}} | own)
    assert study.train_slice("other") == alone.train_slice("other")


def test_every_row_of_the_reference_has_four_cells() -> None:
    rows = [line for line in reference().splitlines() if line.startswith("| `")]
    assert {len(re.split(r"(?<!\\)\|", row)) for row in rows} == {6}  # two outside the bars


def test_a_section_may_be_any_mapping() -> None:
    frozen = {"noise": MappingProxyType({"noise_std": 0.1})}
    assert parse(VALID | {"defences": MappingProxyType(frozen)}).defences["noise"].noise_std == 0.1


def test_the_judge_deploys_its_last_epoch() -> None:
    study = parse(VALID | {"train": {"select": "best_val"}})
    assert (study.training("judge").select, study.training("noise").select) == ("last", "best_val")


def test_the_epochs_to_raise_are_those_that_are_too_few() -> None:
    few = {"noise_std": 0.1, "surrogate": "gated", "train": {"epochs": 3}}
    study = parse(VALID | {"defences": {"noise": {}, "few": few}})
    (found,) = [one for one in requirements(Plan(study)) if "epochs" in one.subject]
    assert found.subject == "defences.few.train.epochs"
    assert found.found.startswith("3, but defences.few.surrogate acts from epoch ")


@pytest.mark.parametrize(
    ("train", "defences", "keys"),
    [
        ({}, {"noise": {"train": {"milestones": [3]}}}, ["train.milestones"]),  # the judge's
        (
            {"schedule": "one_cycle"},
            {"noise": {"train": {"schedule": "milestones"}}},
            ["defences.noise.train.milestones"],
        ),
        (
            {},
            {"noise": {"train": {"epochs": 4}}},
            ["train.milestones", "defences.noise.train.milestones"],
        ),
    ],
)
def test_the_milestones_of_every_training_are_checked(
    train: dict[str, Any], defences: Any, keys: list[str]
) -> None:
    study = parse(VALID | {"train": {"epochs": 5} | train, "defences": defences})
    told = [one.subject for one in requirements(Plan(study)) if "rate never falls" in one.found]
    assert told == keys


@pytest.mark.parametrize(
    ("train", "warned"),
    [
        ({"milestones": [10, 20]}, False),
        ({"milestones": [20, 30]}, True),
        ({"milestones": []}, False),
        ({"milestones": [20], "schedule": "one_cycle"}, False),
    ],
)
def test_a_rate_that_never_falls_is_a_warning(train: dict[str, Any], warned: bool) -> None:
    """A milestone acts after its epoch: that after the last of 20 epochs changes nothing."""
    study = parse(VALID | {"train": {"epochs": 20} | train, "defences": {"noise": {}}})
    told = [one.level for one in requirements(Plan(study)) if one.subject == "train.milestones"]
    assert told == ["warning"] * warned


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_study_of_another_system_is_sent_where_it_belongs(system: str) -> None:
    assert parse_any(VALID | {"system": "split"}) == parse(VALID)
    for other, file in (("split", "config.yaml"), ("pctc", "pctc.yaml")):
        if other != system:
            with pytest.raises(ConfigError) as caught:
                load_as(SYSTEMS[system], ROOT / "config" / file)
            assert f"system: this is a study of {other}; give it to" in str(caught.value)
            assert len(str(caught.value).splitlines()) == 1


def test_the_reference_page_is_the_schema() -> None:
    """`make reference` writes it anew."""
    assert (ROOT / "config/README.md").read_text() == reference()


def test_the_reference_names_every_section_and_describes_every_key() -> None:
    page, waiting = reference(), [Section]
    while waiting:
        section = waiting.pop()
        waiting.extend(section.__subclasses__())
        told = " ".join((section.__doc__ or "").split()) in page
        assert told or section.__subclasses__(), f"{section.__name__} is not documented"
        named = {"name", "kind", "system"}  # tell the sections apart
        bare = {n for n, f in section.model_fields.items() if not f.description} - named
        assert not bare, f"{section.__name__}: {bare}"
