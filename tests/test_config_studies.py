"""The committed studies: each loads, says how many jobs it is, and has what it was made for."""

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from cemlib.config import Study
from cemlib.config.load import load_any
from cemlib.report.publish import published_study
from cemlib.study.job import WILDCARD
from cemlib.study.plan import Plan
from cemlib.study.requirements import PROBLEM, requirements
from cemlib.study.rules import Planned
from cemlib.study.systems import jobs_of, read_study

CONFIG = Path(__file__).parents[1] / "config"
STUDIES = sorted((CONFIG / "studies").rglob("*.yaml"))
PUBLISHED = [path.parent for path in CONFIG.parent.glob("results/published/*/provenance.json")]
COUNTED = re.compile(r"^# (\d+) defences, (\d+) trainings, (\d+) jobs\.$", re.MULTILINE)


def name_of(path: Path) -> str:
    """Of its experiment: the file's name, after its folder's where that is not `studies`."""
    return "_".join(path.relative_to(CONFIG / "studies").with_suffix("").parts)


read = cache(load_any)  # many tests ask for the same studies


def study(name: str) -> Study:
    return read(CONFIG / f"studies/{name}.yaml")


@pytest.mark.parametrize("path", STUDIES, ids=name_of)
def test_a_study_is_what_its_first_lines_say(path: Path) -> None:
    found, text = read(path), path.read_text()
    (counts,) = COUNTED.findall(text)
    runs = len(found.defences) * len(found.seeds)
    attacks = len(found.learned_attacks()) + bool(found.closed_form_attacks())
    # Beside the runs and the attacks on each: images, judge, and four jobs of the report.
    assert [*map(int, counts)] == [len(found.defences), runs, 6 + runs * (1 + attacks)]
    assert f"--configfile {path.relative_to(CONFIG.parent)}" in text
    assert found.experiment == name_of(path)


@pytest.mark.parametrize("path", [*CONFIG.glob("*.yaml"), *STUDIES], ids=lambda path: path.stem)
def test_every_committed_study_could_run(path: Path) -> None:
    """Whether its images are there is another thing."""
    plan = Plan(read(path))
    told = [one.subject for one in requirements(plan) if one.level == PROBLEM]
    assert [subject for subject in told if not subject.startswith("data ")] == []


@pytest.mark.parametrize(
    "name",
    [
        *("table1", "search_digits", "studies/map/bido"),  # with learned attacks or without
        *("federated", "federated_gradients"),  # with GANs or without
        "pctc",
    ],
)
def test_the_files_of_every_rule_have_the_wildcards_of_its_log(name: str) -> None:
    """Snakemake refuses other rules. They depend on the kinds of a study's jobs alone."""
    path = CONFIG / f"{name}.yaml"
    plan = Plan(read(path))
    for rule in Planned("study", "", plan, jobs_of(plan), path).rules:
        wildcards = {*WILDCARD.findall(str(rule.log))}
        assert all({*WILDCARD.findall(str(file))} == wildcards for file in rule.outputs), rule.name


@pytest.mark.parametrize("place", PUBLISHED, ids=lambda place: place.name)
def test_what_is_published_can_be_made_again(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(CONFIG.parent)
    plan, every = read_study(*published_study(place))
    assert {"report", "tables"} & {job.kind for job in every}, plan


def test_no_two_studies_share_a_folder() -> None:
    names = [read(path).experiment for path in (*STUDIES, *CONFIG.glob("*.yaml"))]
    assert len(names) == len(set(names))


def test_a_reduced_study_differs_by_its_size_alone() -> None:
    """The same defences, attacks and comparisons; but ARL's decoder and the epoch of pruning."""
    reduced = [path for path in STUDIES if path.stem.endswith("_short")]
    assert len(reduced) == 7
    for path in reduced:
        found, whole = read(path), read(path.with_stem(path.stem.removesuffix("_short")))
        assert list(found.defences) == list(whole.defences)
        assert list(found.attacks) == list(whole.attacks)
        assert (found.reference, found.families()) == (whole.reference, whole.families())
        assert found.data.train_limit == 10_000
        assert found.data.source == whole.data.source
        for name, defence in found.defences.items():
            assert defence.surrogate == whole.defences[name].surrogate


def test_every_base_is_extended_and_is_no_study() -> None:
    for base in (CONFIG / "bases").glob("*.yaml"):
        assert any(base.name in path.read_text() for path in STUDIES)
        assert "experiment" not in yaml.safe_load(base.read_text())


def variants(name: str) -> dict[str, dict[str, Any]]:
    """Return the surrogate's options of every family of an ablation."""
    found = study(f"ablations_{name}")
    families = found.families().items()
    first = {family: found.defences[next(iter(members))] for family, members in families}
    return {family: dict(one.surrogate) for family, one in first.items() if one.surrogate}


@pytest.mark.parametrize(("name", "least"), [("clustering", 8), ("gated", 14), ("slot", 7)])
def test_every_ablation_changes_one_thing_and_no_two_the_same(name: str, least: int) -> None:
    found = variants(name)
    assert next(iter(found)) == name  # which all others are compared with
    changes = {}
    for family, options in found.items():
        usual = found["raw" if family.startswith("raw_") else name]
        changed = {k: v for k, v in options.items() if v != usual[k] and k != "lambda_"}
        assert len(changed) == (family != name)
        changes[family.startswith("raw_"), str(changed)] = family
    assert len(changes) == len(found) >= least


@pytest.mark.parametrize("name", ["gated", "slot"])
def test_a_scale_and_its_lambda_pull_on_the_features_alike(name: str) -> None:
    found = variants(name)
    (scaled,) = (options for family, options in found.items() if family.startswith("scale"))
    assert scaled["scale"] * scaled["lambda_"] == pytest.approx(
        found[name]["scale"] * found[name]["lambda_"]
    )


def test_data_sets_and_cuts_differ_in_nothing_else() -> None:
    first = study("datasets/cifar10")
    for name in ("cifar100", "tinyimagenet", "facescrub"):
        found = study(f"datasets/{name}")
        assert (found.defences, found.attacks) == (first.defences, first.attacks)
        assert found.train == first.train
    cuts = [study(f"cuts/cut{cut}") for cut in (2, 4, 6, 8, 10)]
    assert [found.model.cut for found in cuts] == [2, 4, 6, 8, 10]
    same = [found.model_copy(update={"model": None, "experiment": None}) for found in cuts]
    assert all(found == same[0] for found in same)
