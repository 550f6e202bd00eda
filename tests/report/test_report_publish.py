"""Publishing: whole, with its provenance, or not at all; and what was published, made again."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from synthetic_study import change

from cemlib.records.files import FileError, read_json, write_json
from cemlib.records.seal import write_sealed
from cemlib.report import TABLES
from cemlib.report.publish import compare_published, publish, published_study


def finished(root: Path, **provenance: Any) -> tuple[list[Path], list[Path]]:
    """Metrics and sources of a study of two jobs; `provenance` overrides the second one's."""
    facts = {"commit": "abc", "dirty": False, "device": "cpu", "threads": 1}
    facts |= {"versions": {"a": "1"}, "processor": "2 x this"}
    jobs = []
    for seed, changes in enumerate(({}, provenance)):
        path = root / f"runs/none/seed{seed}/metrics.json"
        job = {"seed": seed, "status": "ok", "wall_seconds": 1.5, "config": {"epochs": 3}}
        write_sealed(path, job | {"provenance": facts | changes})
        jobs.append(path)
    sources = [root / "tables" / name for name in TABLES]
    sources += [root / "figures" / f"{name}.png" for name in ("privacy", "surrogate_gated")]
    for source in sources:
        source.parent.mkdir(exist_ok=True)
        source.write_text(source.name)
    return jobs, sources


def test_tables_and_pictures_are_copied_with_their_origin(tmp_path: Path) -> None:
    jobs, sources = finished(tmp_path / "study", commit="def")
    written = publish(jobs, sources, tmp_path / "out", "do it")
    assert [path.name for path in written[:-1]] == [source.name for source in sources]
    assert {path.name for path in written} == {path.name for path in (tmp_path / "out").iterdir()}
    for source in sources:
        assert (tmp_path / "out" / source.name).read_text() == source.name
    found = read_json(tmp_path / "out/provenance.json")
    assert (found["command"], found["commits"], found["seeds"]) == ("do it", ["abc", "def"], [0, 1])
    assert (found["jobs"], found["failed"], found["job_seconds"]) == (2, 0, 3)


def test_results_that_join_published_ones_have_the_origin_of_both(tmp_path: Path) -> None:
    first, sources = finished(tmp_path / "first", commit="def")
    publish(first, sources, tmp_path / "out", "do it")
    place = tmp_path / "out/provenance.json"
    write_json(place, read_json(place) | {"seeds": [5]})
    other = {"commit": "fed", "processor": "another", "versions": {"a": "2"}}
    second, sources = finished(tmp_path / "second", **other)
    publish(second, sources, tmp_path / "out", "do both", joins_published=True)
    found = read_json(place)
    assert found["command"] == "do both"
    assert found["commits"] == ["abc", "def", "fed"]
    assert (found["seeds"], found["jobs"], found["job_seconds"]) == ([0, 1, 5], 4, 6)
    assert (found["processors"], found["versions"]) == ("2 x this; another", {"a": "1; 2"})


def test_an_interrupted_publication_can_be_repeated(tmp_path: Path) -> None:
    """What `--add` reads stays as it is until all other files are there."""
    first, sources = finished(tmp_path / "first")
    publish(first, sources, tmp_path / "out", "do it")
    before = [(tmp_path / "out" / name).read_bytes() for name in ("runs.csv", "provenance.json")]
    second, sources = finished(tmp_path / "second")
    for source in sources:
        source.write_text("both")
    sources[-1].unlink()
    with pytest.raises(FileNotFoundError):
        publish(second, sources, tmp_path / "out", "do both", joins_published=True)
    now = [(tmp_path / "out" / name).read_bytes() for name in ("runs.csv", "provenance.json")]
    assert now == before
    sources[-1].write_text("both")
    publish(second, sources, tmp_path / "out", "do both", joins_published=True)
    assert (tmp_path / "out/runs.csv").read_text() == "both"
    assert read_json(tmp_path / "out/provenance.json")["jobs"] == 4


@pytest.mark.parametrize(
    ("changes", "what"),
    [({"config": {"epochs": 50}}, "settings"), ({"data_sha256": "b"}, "images, or other splits")],
)
def test_results_of_another_study_do_not_join_published_ones(
    tmp_path: Path, changes: dict[str, Any], what: str
) -> None:
    first, sources = finished(tmp_path / "first")
    change(first[0], data_sha256="a")
    publish(first, sources, tmp_path / "out", "do it")
    second, sources = finished(tmp_path / "second")
    change(second[0], **{"data_sha256": "a", **changes})
    with pytest.raises(FileError, match=rf"provenance\.json: made with other {what}"):
        publish(second, sources, tmp_path / "out", "do both", joins_published=True)


def test_an_option_that_is_new_in_cemlib_lets_results_join(tmp_path: Path) -> None:
    first, sources = finished(tmp_path / "first")
    change(first[0], config={"train": {"epochs": 3}})
    publish(first, sources, tmp_path / "out", "do it")
    second, sources = finished(tmp_path / "second")
    change(second[0], config={"train": {"epochs": 3, "nesterov": False}})
    origin = read_json(tmp_path / "out/provenance.json")
    publish(second, sources, tmp_path / "out", "do both", joins_published=True)
    assert read_json(tmp_path / "out/provenance.json")["jobs"] == 4
    del origin["chosen"]  # as an earlier version wrote it
    write_json(tmp_path / "out/provenance.json", origin)
    with pytest.raises(FileError, match="made with other settings"):
        publish(second, sources, tmp_path / "out", "do both", joins_published=True)


def test_files_that_the_study_no_longer_has_are_removed(tmp_path: Path) -> None:
    jobs, sources = finished(tmp_path / "study")
    notes = tmp_path / "out/README.md"
    for path in (tmp_path / "out/tradeoff.csv", notes):
        path.parent.mkdir(exist_ok=True)
        path.write_text("old")
    publish(jobs, sources, tmp_path / "out", "do it")
    assert not (tmp_path / "out/tradeoff.csv").exists()
    assert notes.read_text() == "old"
    (tmp_path / "out/tradeoff.csv").write_text("of both")
    publish(jobs, sources, tmp_path / "out", "do both", joins_published=True)
    assert (tmp_path / "out/tradeoff.csv").exists()


def test_the_judge_is_of_known_origin_too(tmp_path: Path) -> None:
    jobs, sources = finished(tmp_path / "study")
    (_, judge), _ = finished(tmp_path / "other", commit="def")
    record = read_json(judge)
    del record["seed"], record["config"]  # as that of the cost of cryptography has none
    write_sealed(judge, record)
    publish(jobs, sources, tmp_path / "out", "do it", others=[judge])
    found = read_json(tmp_path / "out/provenance.json")
    assert (found["commits"], found["jobs"]) == (["abc", "def"], 2)
    (_, judge), _ = finished(tmp_path / "other", dirty=True)
    with pytest.raises(FileError, match=r"made by uncommitted code.*; commit, delete .*seed1"):
        publish(jobs, sources, tmp_path / "out", "do it", others=[judge])


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"dirty": True}, "made by uncommitted code"),
        ({"commit": "unknown"}, "made by uncommitted code"),
        (None, "no key 'provenance'; delete it"),
    ],
)
def test_a_result_of_unknown_origin_is_refused(
    tmp_path: Path, changes: dict[str, Any] | None, fault: str
) -> None:
    jobs, sources = finished(tmp_path / "study", **(changes or {}))
    if changes is None:
        lacking = {"seed": 1, "status": "ok", "wall_seconds": 1.0, "config": {}}
        write_sealed(jobs[1], lacking)
    with pytest.raises(FileError, match=rf"seed1/metrics\.json: {fault}"):
        publish(jobs, sources, tmp_path / "out", "do it")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("command", "changes"),
    [
        ("snakemake --cores 2 --configfile config/a.yaml", []),
        ("cemlib run --config config/a.yaml --set x=1 --set 'y=[1, 2]'", ["x=1", "y=[1, 2]"]),
    ],
)
def test_a_published_command_names_its_study(
    tmp_path: Path, command: str, changes: list[str]
) -> None:
    write_json(tmp_path / "provenance.json", {"command": command})
    assert published_study(tmp_path) == (Path("config/a.yaml"), changes)


@pytest.mark.parametrize(
    ("origin", "fault"),
    [({"command": "snakemake --cores 2"}, "names no configuration"), ({}, "no key 'command'")],
)
def test_a_published_command_without_a_study_is_refused(
    tmp_path: Path, origin: dict[str, str], fault: str
) -> None:
    write_json(tmp_path / "provenance.json", origin)
    with pytest.raises(FileError, match=fault):
        published_study(tmp_path)


TABLE: dict[str, list[Any]] = {
    "defence": ["none", "noise"],
    "mse": [0.001234, 0.002],
    "bound": [float("inf"), 3.0],
    "verdict": ["", "higher"],
    "fingerprint": ["a", "a"],
    "wall_seconds": [1.0, 2.0],
    "times_reference": [1.0, 2.0],
}


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, "equal"),
        ({"mse": [0.0012341, 0.002], "wall_seconds": [9.0, 9.0]}, "equal"),
        ({"times_reference": [1.0, 1.5]}, "equal"),
        ({"fingerprint": ["b", "b"]}, "equal"),
        ({"mse": [0.0013, 0.0021]}, "mse: 2 of 2 differ, first in line 2: 0.001234 -> 0.0013"),
        ({"bound": [5.0, 3.0]}, "bound: 1 of 2 differ, first in line 2: ∞ -> 5"),
        ({"verdict": ["", "lower"]}, "verdict: 1 of 2 differ, first in line 3: higher -> lower"),
        ({"ssim": [0.5, 0.6]}, "new ssim"),
        ({"mse": None}, "missing mse"),
        ({"defence": ["none", "gated"]}, "other rows: 2 before, 2 now"),
    ],
)
def test_what_differs_by_more_than_is_printed(
    tmp_path: Path, changes: dict[str, Any], told: str
) -> None:
    for name, content in (("before", TABLE), ("now", TABLE | changes)):
        (tmp_path / name).mkdir()
        kept = {column: values for column, values in content.items() if values is not None}
        pd.DataFrame(kept).to_csv(tmp_path / name / "runs.csv", index=False)
    assert list(compare_published(tmp_path / "before", tmp_path / "now")) == [f"runs.csv: {told}"]


@pytest.mark.parametrize(
    ("mse", "told"),
    [
        (0.2, "seeds [1] of 3: equal"),
        (0.3, "seeds [1] of 3: mse: 1 of 1 differ, first in line 2: 0.2 -> 0.3"),
    ],
)
def test_one_seed_is_compared_with_itself(tmp_path: Path, mse: float, told: str) -> None:
    before = pd.DataFrame({"defence": ["none"] * 3, "seed": [0, 1, 2], "mse": [0.1, 0.2, 0.4]})
    now = pd.DataFrame({"defence": ["none"], "seed": [1], "mse": [mse]})
    for name, frame in (("before", before), ("now", now)):
        (tmp_path / name).mkdir()
        frame.to_csv(tmp_path / name / "runs.csv", index=False)
    assert list(compare_published(tmp_path / "before", tmp_path / "now")) == [f"runs.csv: {told}"]


def test_a_table_that_is_not_made_any_more_is_named(tmp_path: Path) -> None:
    (tmp_path / "old.csv").write_text("a\n1\n")
    assert list(compare_published(tmp_path, tmp_path / "now")) == ["old.csv: no longer made"]
