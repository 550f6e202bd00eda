"""Edits between a study's runs and their readers: no number of other settings without a mark.

Which results an edit concerns is said here beside each edit, and every reader is asked afterwards.
"""

import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from finished_study import RAW, Finished
from PIL import Image

from cemlib.cli import main
from cemlib.cli.study import to_upload
from cemlib.config.extending import changed
from cemlib.records.files import read_json
from cemlib.records.layout import KNOWLEDGES
from cemlib.records.seal import write_sealed
from cemlib.study.finished import is_written
from cemlib.study.rules import age_lost_results
from cemlib.study.systems import read_study

RUNS = ("noise/seed0", "noise/seed1", "strong/seed0", "strong/seed1")
KINDS = [f"{name}-{known}" for name in ("linear", "mean_image") for known in KNOWLEDGES]
EDITS = [7, pytest.param(100, marks=pytest.mark.slow)]
Edit = Callable[["Study", random.Random], set[str]]


@dataclass(frozen=True)
class Study:
    """A finished study, and results of other settings to lay into it."""

    own: Finished
    other: Path


@pytest.fixture(scope="module")
def base(finished: Finished, tmp_path_factory: pytest.TempPathFactory) -> Study:
    """A study to the end, its tables too; not to be changed."""
    other = tmp_path_factory.mktemp("other")
    differing = ["--config", finished.config, "--set", f"results={other}"]
    differing += ["--set", "data.train_limit=150"]
    assert main(["prepare", *differing]) == 0
    assert main(["train", "--defence", "strong", "--seed", "1", *differing]) == 0
    return Study(finished, other / "short")


def below(*runs: str) -> set[str]:
    """Names of runs and of their attacks; those of the judge, which has none, match nothing."""
    return {name for run in runs for name in (run, *(f"{run}/attacks/{kind}" for kind in KINDS))}


def a_setting(study: Study, draws: random.Random) -> set[str]:
    linear = {name for name in below(*RUNS) if "linear" in name}
    key, value, concerned = draws.choice(
        [
            ("defences.noise.noise_std", draws.uniform(0.03, 1), below(*RUNS[:2])),
            ("defences.strong.noise_std", draws.uniform(0.51, 1), below(*RUNS[2:])),
            ("defences.strong.surrogate", "clustering", below(*RUNS[2:])),
            ("train.epochs", draws.randint(3, 9), below(*RUNS, "judge")),
            ("train.lr", draws.uniform(1e-4, 1e-3), below(*RUNS, "judge")),
            ("model.cut", 3, below(*RUNS, "judge")),
            ("data.train_limit", draws.randint(150, 199), below(*RUNS, "judge")),
            ("data.image_size", 32, below(*RUNS, "judge")),
            ("attacks.linear.ridge", draws.uniform(1, 2), linear),
        ]
    )
    study.own.configure(**changed(RAW, [f"{key}={value}"]))
    return concerned


def a_copied_run(study: Study, draws: random.Random) -> set[str]:
    source, target = draws.sample(RUNS, 2)
    lay(study.own.run(source), study.own.run(target))
    return below(target)


def a_copied_attack(study: Study, draws: random.Random) -> set[str]:
    source, target = draws.sample(sorted(name for name in below(*RUNS) if "attacks" in name), 2)
    lay(study.own.run(source), study.own.run(target))
    return {target}


def data_of_other_settings(study: Study, _: random.Random) -> set[str]:
    lay(study.other / "data", study.own.results / "data")
    return below(*RUNS, "judge")


def a_run_of_other_settings(study: Study, _: random.Random) -> set[str]:
    lay(study.other / "runs/strong/seed1", study.own.run("strong/seed1"))
    return below("strong/seed1")


def a_result_of_other_code(study: Study, draws: random.Random) -> set[str]:
    name = draws.choice(sorted(below(*RUNS)))
    path = study.own.run(name) / "metrics.json"
    record = read_json(path)
    record["provenance"]["fingerprint"] = "0"
    write_sealed(path, record, [path.with_name(name) for name in record["files"]])
    return {name} if "attacks" in name else below(name)


def data_of_other_code(study: Study, _: random.Random) -> set[str]:
    path = study.own.results / "data/data.json"
    record = read_json(path)
    record["source"]["preparation"]["fingerprint"] = "0"
    write_sealed(path, record, [path.with_name(name) for name in record["files"]])
    return below(*RUNS, "judge")


def height(picture: Path) -> int:
    with Image.open(picture) as image:
        return image.height


def lay(source: Path, target: Path) -> None:
    """As `cp -r` over a folder that is there."""
    shutil.copytree(source, target, dirs_exist_ok=True)


KINDS_OF_EDITS: list[Edit] = [
    a_setting,
    a_copied_run,
    a_copied_attack,
    data_of_other_settings,
    data_of_other_code,
    a_run_of_other_settings,
    a_result_of_other_code,
]


@pytest.mark.parametrize("count", EDITS)
def test_no_number_of_other_settings_is_shown_without_a_mark(
    base: Study, tmp_path: Path, count: int
) -> None:
    """Every reader leaves out, or refuses, what an edit concerns, and only that."""
    draws = random.Random(count)
    for number in range(count):
        study = Study(base.own.copy(tmp_path / str(number)), base.other)
        edit = KINDS_OF_EDITS[number % len(KINDS_OF_EDITS)]
        concerned, results = edit(study, draws), below(*RUNS)
        assert listed(study.own) == {*RUNS, "judge"} - concerned, edit
        assert uploaded(study) == results - concerned, edit
        for name in draws.sample(sorted(results), 3):
            is_refused(study, name in concerned, "show", name.replace("attacks/", ""))
        is_refused(study, True, "report", "--only", "tables")
        is_refused(study, True, "publish")
        shutil.rmtree(study.own.root)


def listed(study: Finished, *more: str) -> set[str]:
    """Runs with an accuracy."""
    rows = [line.split() for line in study.says("list", "runs", *more)[0].splitlines()[2:]]
    for _name, status, _, _, _, *note in rows:
        assert status == "finished" or (status == "stale" and "made" in note)
    return {row[0] for row in rows if row[3] != "-"}


def uploaded(study: Study) -> set[str]:
    upload = to_upload(*read_study(Path(study.own.config)))
    return {found.folder.removeprefix("runs/") for found in upload._results() if found}


def is_refused(study: Study, expected: bool, *words: str) -> None:
    """A refusal says what was made otherwise, and shows nothing."""
    out, errors = study.own.says(*words, code=2 if expected else 0)
    if expected:
        assert out == ""
        assert "made " in errors


def test_what_a_dry_run_of_snakemake_aged_is_taken_for_new_again(spoilt: Finished) -> None:
    """A setting is changed, Snakemake is asked what it would do, and the change is undone."""
    read_study(Path(spoilt.config))[0].write_config()
    spoilt.says("report", "--only", "tables")
    spoilt.configure(train=RAW["train"] | {"lr": 0.02})
    age_lost_results(read_study(Path(spoilt.config))[1])
    spoilt.configure()
    (tables,) = (job for job in read_study(Path(spoilt.config))[1] if job.kind == "tables")
    assert not is_written(tables)
    assert "error: figures, training_figures, page: absent" in spoilt.says("publish", code=2)[1]
    assert is_written(tables)


@pytest.mark.parametrize(
    ("setting", "difference"),
    [
        ("defences.noise.noise_std=0.7", "made with defences.noise.noise_std 0.025, now 0.7"),
        ("train.epochs=3", "made with train.epochs 2, now 3"),
        ("attacks.linear.ridge=1.5", "made with attacks.linear.ridge 0.001, now 1.5"),
    ],
)
def test_the_difference_is_named_as_the_study_writes_it(
    finished: Finished, setting: str, difference: str
) -> None:
    _, errors = finished.says("report", "--only", "tables", "--set", setting, code=2)
    assert difference in errors


def test_an_attack_that_has_left_the_study_is_not_shown(spoilt: Finished) -> None:
    """Its score may be that of an earlier classifier."""
    spoilt.configure(attacks={"mean_image": {}})
    shown, _ = spoilt.says("show", "noise/seed0")
    assert "mean_image-train_data" in shown
    assert "linear-" not in shown


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (("publish", "--compare", "--add"), "--compare and --add: give only one of them"),
        (("track", "--defence", "judge"), "no defence 'judge' in this study"),
    ],
)
def test_options_that_would_do_nothing_are_refused(
    finished: Finished, command: tuple[str, ...], told: str
) -> None:
    assert told in finished.says(*command, code=2)[1]


def test_a_copy_is_told_by_whose_it_is(spoilt: Finished) -> None:
    lay(spoilt.run("noise/seed0"), spoilt.run("strong/seed0"))
    _, errors = spoilt.says("report", code=2)
    assert "strong/seed0 and 4 more: made for defence noise\n" in errors


def test_stale_results_are_shown_marked(spoilt: Finished) -> None:
    spoilt.configure(**changed(RAW, ["defences.noise.noise_std=0.7"]))
    difference = "made with defences.noise.noise_std 0.025, now 0.7"
    assert listed(spoilt, "--stale") == {*RUNS, "judge"}
    shown, _ = spoilt.says("show", "noise/seed0", "--stale")
    assert f"stale: {spoilt.run('noise/seed0')}" in shown
    assert difference in shown
    before = (spoilt.results / "tables/summary.md").read_bytes()
    written = [Path(line) for line in spoilt.says("report", "--stale")[0].splitlines()]
    apart = spoilt.results / "stale"
    assert {file.parent for file in written} == {apart, apart / "tables", apart / "figures"}
    for file in written:
        if file.suffix not in (".csv", ".png", ".pdf"):
            text = file.read_text().replace(r"\_", "_")  # as LaTeX has it
            assert "Stale: " in text, file
            assert difference in text, file
    assert (spoilt.results / "tables/summary.md").read_bytes() == before
    spoilt.configure()
    spoilt.says("report", "--only", "training_figures")
    name = "figures/training_curves.png"  # the note stands above the figure
    assert height(apart / name) > height(spoilt.results / name)


def test_a_training_on_data_of_other_settings_is_refused(spoilt: Finished) -> None:
    for command in ("train", "attack"):
        _, errors = spoilt.says(command, "--set", "data.train_limit=150", code=2)
        assert "made with data.train_limit 200, now 150" in errors


def test_tables_of_other_seeds_are_not_published(finished: Finished) -> None:
    """Their results belong; they themselves say so by the configuration beside them."""
    named = []
    for words in ((), ("--set", "seeds=[0]")):
        _, errors = finished.says("publish", *words, code=2)  # there are no figures
        names, _, fault = errors.removeprefix("error: ").partition(":")
        assert "older than its results or settings" in fault
        named.append(names.split(", "))
    assert "tables" not in named[0]
    assert "tables" in named[1]
