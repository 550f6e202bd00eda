"""Sweeps: the defences that they become, what they refuse, and what they leave as it is."""

import copy
from pathlib import Path
from typing import Any

import pytest

from cemlib.config import ConfigError, load, parse
from cemlib.config.sweeps import MAX_MEMBERS, PLACES
from cemlib.study.plan import Plan

ATTACKS = {"linear": {}, "residual": {}, "decoder": {}}
STUDY: dict[str, Any] = {
    "experiment": "test",
    "data": {"source": "digits"},
    "attacks": {"linear": {}},
}
GATED: dict[str, Any] = {"surrogate": "gated", "over": {"lambda": [2, 8.5]}}


def study(defences: dict[str, Any] | None = None, **sweeps: Any) -> dict[str, Any]:
    raw = copy.deepcopy(STUDY) | {"sweeps": sweeps}
    return raw if defences is None else raw | {"defences": defences}


def fault(raw: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        parse(raw)
    return str(caught.value)


def test_a_sweep_is_the_defences_that_one_would_write_out() -> None:
    over = {"lambda": [2, 8.5], "noise_std": [0.025, 1e-5]}
    swept = parse(
        study(
            {"noise": {}},
            gated={"surrogate": {"name": "gated", "scale": 0.2}, "sparse_coding": True}
            | {"over": over},
        )
    )
    written = {
        f"gated_lambda{name}_noise_std{sigma}": {
            "surrogate": {"name": "gated", "scale": 0.2, "lambda": weight},
            "sparse_coding": True,
            "noise_std": noise,
        }
        for name, weight in (("2", 2), ("8p5", 8.5))
        for sigma, noise in (("0p025", 0.025), ("1em05", 1e-5))
    }
    plain = parse(STUDY | {"defences": {"noise": {}, **written}})
    assert list(swept.defences) == ["noise", *written]
    assert swept.defences == plain.defences
    for name in written:
        assert swept.train_slice(name) == plain.train_slice(name)
        assert swept.attack_slice(name, "linear") == plain.attack_slice(name, "linear")


def test_families_say_which_settings_made_a_member() -> None:
    families = parse(study(gated=GATED, noise={"over": {"noise_std": [0.1]}})).families()
    assert families == {
        "gated": {"gated_lambda2": {"lambda": 2}, "gated_lambda8p5": {"lambda": 8.5}},
        "noise": {"noise_noise_std0p1": {"noise_std": 0.1}},
    }


def test_a_written_study_is_the_same_study(tmp_path: Path) -> None:
    first = parse(study({"noise": {}}, gated=GATED) | {"results": str(tmp_path)})
    Plan(first).write_config()
    again = load(Plan(first).layout.config)
    assert again == first
    assert list(again.defences) == list(first.defences)
    assert again.families() == first.families()
    assert again.report_slice() == first.report_slice()


def test_each_member_of_a_sweep_needs_noise_for_its_bound() -> None:
    silent = {"surrogate": "logdet", "noise_std": 0.0}
    over = {"lambda": [2, 8], "noise_std": [0.1, 0.2]}
    assert len(parse(study(g=silent | {"over": over})).defences) == 4
    assert "sweeps.g.over.noise_std: noise_std is 0" in fault(
        study(g=silent | {"over": {"noise_std": [0, 0.1]}})
    )


def test_another_order_of_the_defences_is_another_configuration(tmp_path: Path) -> None:
    """Tables and figures list the defences in this order, so it belongs to the configuration."""
    one, two = (
        parse(study({name: {} for name in names}) | {"results": str(tmp_path)})
        for names in (("noise", "other"), ("other", "noise"))
    )
    Plan(one).write_config()
    assert Plan(one).is_configured()
    assert not Plan(two).is_configured()


def test_what_over_names_goes_to_its_place() -> None:
    sections: dict[str, dict[str, Any]] = {
        "clusters": {"surrogate": "gmm", "over": {"clusters": [3]}},
        "gate": {"surrogate": "clustering", "over": {"gate": ["linear"]}},
        "index": {"surrogate": "clustering", "over": {"reference_indexing": [True]}},
        "nopeek": {"penalty": "nopeek", "over": {"penalty_scale": [0.7]}},
        "pruned": {"pruning": {"epoch": 1}, "over": {"pruning_ratio": [0.25]}},
        "dropout": {"channel": "dropout", "over": {"dropout_rate": [0.3]}},
        "topk": {"channel": "topk", "over": {"topk_keep": [0.4]}},
        "dp": {"channel": "local_dp", "over": {"epsilon": [7.5]}},
        "cut": {"over": {"cut": [3]}},
        "narrow": {"over": {"bottleneck": [2]}},
    }
    defences = parse(study(**sections) | {"model": {"name": "small"}}).defences
    for (sweep, section), (name, defence) in zip(sections.items(), defences.items(), strict=True):
        ((key, (value,)),) = section["over"].items()
        plain = defence.model_dump(mode="json", by_alias=True)
        for part in PLACES[key]:
            plain = plain[part]
        assert plain == value
        assert name.startswith(f"{sweep}_{key}")
    assert "index_reference_indexingtrue" in defences


def test_an_attack_depends_on_the_mirror_images_of_the_study() -> None:
    """The attacker mirrors images if the study does, whatever the attacked defence does."""
    plain = {"defences": {"plain": {"train": {"augment": {"flip": False}}}}}
    with_, without = (
        parse(study() | plain | {"train": {"augment": {"flip": flip}}, "attacks": ATTACKS})
        for flip in (True, False)
    )
    slices = [[each.attack_slice("plain", name) for each in (with_, without)] for name in ATTACKS]
    assert [one != other for one, other in slices] == [name == "decoder" for name in ATTACKS]
    assert with_.train_slice("plain") == without.train_slice("plain")


@pytest.mark.parametrize(
    ("sweep", "parts"),
    [
        ({"over": {"lambda": [1]}}, ["sweeps.x.over.lambda: ", "no surrogate", "add `surrogate:`"]),
        (GATED | {"over": {"lamda": [1]}}, ["sweeps.x.over.lamda: ", "did you mean 'lambda'"]),
        (GATED | {"over": {"lambda": [-1]}}, ["sweeps.x.over.lambda: ", "found -1"]),
        (GATED | {"over": {"lambda": ["8"]}}, ["sweeps.x.over.lambda: ", "found '8'"]),
        (
            {"surrogate": {"name": "clustering", "form": "batch"}, "over": {"gamma": [0.02]}},
            ["sweeps.x.over.gamma: gamma is 0.02"],
        ),
        (GATED | {"over": {"slots": [4]}}, ["sweeps.x.over.slots: ", "no option of this sweep's"]),
        (GATED | {"over": {"lambda": [4, 4.0]}}, ["sweeps.x.over.lambda: ", "listed twice"]),
        (GATED | {"over": {"lambda": []}}, ["sweeps.x.over.lambda: "]),
        (GATED | {"over": {"lambda": 4}}, ["sweeps.x.over.lambda: "]),
        (GATED | {"over": {}}, ["sweeps.x.over: "]),
        ({"surrogate": "gated"}, ["sweeps.x.over: missing; add it"]),
        (GATED | {"surrogate": "gatd"}, ["sweeps.x.surrogate: ", "did you mean 'gated'"]),
        (GATED | {"nois_std": 1}, ["sweeps.x.nois_std: unknown key; did you mean 'noise_std'"]),
        (
            {"over": {"noise_std": list(range(MAX_MEMBERS + 1))}},
            ["sweeps: ", f"{MAX_MEMBERS + 1} defences"],
        ),
    ],
)
def test_a_faulty_sweep_is_named_in_one_line(sweep: Any, parts: list[str]) -> None:
    found = fault(study(x=sweep))
    assert len(found.splitlines()) == 1
    for part in parts:
        assert part in found


def test_a_member_may_not_be_another_defence() -> None:
    other = fault(study({"x_lambda2": {}}, x=GATED))
    assert other == "sweeps.x: 'x_lambda2' differs from the defence of that name; rename one"
    both = {"surrogate": "gated", "over": {"lambda": [2], "noise_std": [1]}}
    within = {"surrogate": {"name": "gated", "lambda": 2}, "over": {"noise_std": [1]}}
    found = fault(study(x=both, x_lambda2=within))
    assert found == "sweeps.x_lambda2: 'x_lambda2_noise_std1' is also a member of sweeps.x"


def test_names_that_are_too_long_or_odd_are_refused() -> None:
    assert "defences.y" in fault(study(**{"y" * 55: GATED}))
    assert "sweeps.a b" in fault(study(**{"a b": GATED}))


def test_an_unreadable_section_of_sweeps_leaves_the_other_faults_in_sight() -> None:
    found = fault(study(gated=3) | {"seeds": [0, 0]})
    assert [line.split(":")[0] for line in found.splitlines()] == ["seeds", "sweeps.gated"]
    assert fault(study(gated=GATED) | {"defences": 3}).startswith("defences: ")
