"""Publishing: whole, with its provenance, or not at all."""

from pathlib import Path
from typing import Any

import pytest

from cemlib.files import FileError, read_json, write_json
from cemlib.report import TABLES
from cemlib.report.publish import PICTURES, publish


def finished(root: Path, **provenance: Any) -> list[Path]:
    """A study of two finished jobs; `provenance` overrides the second one's."""
    facts = {"commit": "abc", "dirty": False, "device": "cpu", "threads": 1, "versions": {"a": "1"}}
    jobs = []
    for seed, changes in enumerate(({}, provenance)):
        path = root / f"runs/none/seed{seed}/metrics.json"
        job = {"seed": seed, "status": "ok", "wall_seconds": 1.5, "provenance": facts | changes}
        write_json(path, job)
        jobs.append(path)
    for name in TABLES:
        (root / "tables").mkdir(exist_ok=True)
        (root / "tables" / name).write_text(name)
    for name in PICTURES:
        (root / "figures").mkdir(exist_ok=True)
        (root / "figures" / f"{name}.png").write_bytes(name.encode())
    return jobs


def test_tables_and_pictures_are_copied_with_their_origin(tmp_path: Path) -> None:
    jobs = finished(tmp_path / "study", commit="def")
    written = publish(tmp_path / "study", jobs, tmp_path / "out", "do it")
    assert {path.name for path in written} == {path.name for path in (tmp_path / "out").iterdir()}
    assert (tmp_path / "out/summary.csv").read_text() == "summary.csv"
    found = read_json(tmp_path / "out/provenance.json")
    assert (found["command"], found["commits"], found["seeds"]) == ("do it", ["abc", "def"], [0, 1])
    assert (found["jobs"], found["failed"], found["job_seconds"]) == (2, 0, 3)


def test_the_courses_of_the_surrogates_are_copied_too(tmp_path: Path) -> None:
    jobs = finished(tmp_path / "study")
    course = tmp_path / "study/figures/surrogate_gated.png"
    with pytest.raises(FileError, match=r"surrogate_gated\.png: no such file; run the study to"):
        publish(tmp_path / "study", jobs, tmp_path / "out", "do it", [course])
    course.write_bytes(b"a course")
    written = publish(tmp_path / "study", jobs, tmp_path / "out", "do it", [course])
    assert tmp_path / "out/surrogate_gated.png" in written
    assert (tmp_path / "out/surrogate_gated.png").read_bytes() == b"a course"


@pytest.mark.parametrize("changes", [{"dirty": True}, {"commit": "unknown"}])
def test_results_of_uncommitted_code_are_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    jobs = finished(tmp_path / "study", **changes)
    with pytest.raises(FileError, match=r"seed1/metrics\.json: made from uncommitted code"):
        publish(tmp_path / "study", jobs, tmp_path / "out", "do it")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("missing", ["tables/summary.tex", "figures/privacy.png"])
def test_an_unfinished_study_is_refused(tmp_path: Path, missing: str) -> None:
    jobs = finished(tmp_path / "study")
    (tmp_path / "study" / missing).unlink()
    with pytest.raises(FileError, match="no such file; run the study to its end"):
        publish(tmp_path / "study", jobs, tmp_path / "out", "do it")
    assert not (tmp_path / "out").exists()
