"""The memory that a study will need, told before it runs, against what its jobs then took."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from cemlib import jobs as jobs_of_studies
from cemlib.config import parse
from cemlib.environment import OF_JOBS
from cemlib.files import FileError
from cemlib.layout import KNOWLEDGES
from cemlib.memory.facts import facts
from cemlib.memory.heap import ALIGNMENT, OVERHEAD, Heap
from cemlib.memory.recorder import META, Recorder
from cemlib.models import build
from cemlib.plan import Plan
from cemlib.provenance import PACKAGE, source_files

ROOT = Path(__file__).parents[1]
WITHIN = 0.3
STUDY: dict[str, Any] = {  # activations rule the trainings and the decoder, images the preparation
    "experiment": "large",
    "seeds": [0],
    "data": {
        "source": "digits",
        "image_size": 128,
        "channels": 3,
        "train_limit": 160,
        "test_limit": 100,
    },
    "model": {"name": "small", "cut": 4},
    "train": {"epochs": 1, "batch_size": 64, "milestones": [1]},
    "defences": {"noise": {}, "clustering": {"surrogate": "clustering"}},
    "attacks": {
        "decoder": {"epochs": 1, "batch_size": 32, "blocks": 1, "width": 16},
        "refinement": {"kind": "optimisation", "start": "decoder", "iterations": 1},
        "mean_image": {},
    },
}
STUDY["train"]["epochs"] = 2  # clustering acts from the second on
JOB = (
    "import sys; from cemlib.cli import main; from cemlib.provenance import peak_memory_mb;"
    " assert main(sys.argv[1:]) == 0; print(peak_memory_mb())"
)
ROW = re.compile(r"^(prepare|judge|train|attack) +(\S.*?) +([\d,]+) +-$", re.MULTILINE)


def python(folder: Path, *arguments: str) -> str:
    """Output of a process such as a workflow's job: with the variables that those have."""
    threads = {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, *arguments, "--config", "study.yaml"]
    environment = os.environ | OF_JOBS | threads
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A study's folder, in which nothing has run, and what `estimate` said of it."""
    folder = tmp_path_factory.mktemp("study")
    (folder / "study.yaml").write_text(yaml.safe_dump(STUDY))
    arguments = ("-m", "cemlib", "estimate", "--device", "cpu", "--slots", "2")
    said = python(folder, *arguments)
    assert not (folder / "results").exists()
    return folder, said


def jobs() -> Iterator[tuple[tuple[str, str], list[str]]]:
    """What the table calls every job, and its command."""
    yield ("prepare", "digits"), ["prepare"]
    cpu = ["--device", "cpu"]
    yield ("judge", "judge"), ["train", "--defence", "judge", *cpu]
    yield ("train", "noise"), ["train", "--defence", "noise", *cpu]
    yield ("train", "clustering"), ["train", "--defence", "clustering", *cpu]
    for label, attack in (("decoder",) * 2, ("refinement",) * 2, ("closed_form", "mean_image")):
        command = ["attack", "--defence", "noise", "--attack", attack, *cpu]
        yield ("attack", f"noise {label}"), command


@pytest.mark.slow
def test_every_job_takes_what_was_told(told: tuple[Path, str]) -> None:
    folder, said = told
    rows = {(kind, of): float(mib.replace(",", "")) for kind, of, mib in ROW.findall(said)}
    taken = {}
    for job, command in jobs():
        taken[job] = float(python(folder, "-c", JOB, *command).splitlines()[-1])
    assert {kind for kind, _ in taken} == {kind for kind, _ in rows}
    errors = {job: round(rows[job] / mib - 1, 2) for job, mib in taken.items()}
    assert all(abs(error) <= WITHIN for error in errors.values()), (errors, taken)
    assert min(taken.values()) > 1_000  # of which a process that has imported torch takes some 600
    run = folder / "results/large/runs/noise/seed0"
    recorded = json.loads((run / "metrics.json").read_text())["peak_memory_mb"]
    assert recorded == pytest.approx(taken["train", "noise"], rel=0.05)
    assert all((run / f"attacks/decoder-{known}").is_dir() for known in KNOWLEDGES)


def test_the_peak_of_several_jobs_is_told(told: tuple[Path, str]) -> None:
    largest = max(int(mib.replace(",", "")) for *_, mib in ROW.findall(told[1]))
    one, two = re.findall(r"^memory: ([\d,]+) MiB at the peak of (.*) \(estimate\)$", told[1], re.M)
    assert (int(one[0].replace(",", "")), one[1]) == (largest, "one job")
    assert int(two[0].replace(",", "")) == pytest.approx(2 * largest, abs=2)
    assert two[1] == "2 jobs at once"
    assert "the digits are 1,797 images" in told[1]


@pytest.mark.parametrize(("name", "side"), [("small", 16), ("vgg11", 32), ("resnet20", 32)])
def test_activations_are_those_that_the_backward_pass_keeps(name: str, side: int) -> None:
    """Bytes alive after a forward pass without data, and bytes that autograd really saves."""
    shape = {"num_classes": 10, "image_size": side, "cut": 4}
    real, saved = build(name, **shape), dict[int, int]()

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        saved[storage.data_ptr()] = storage.nbytes()
        return tensor

    images = torch.rand(16, 3, side, side)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        logits = real(images)
    own = {t.untyped_storage().data_ptr() for t in (*real.parameters(), *real.buffers(), images)}
    kept = sum(size for place, size in saved.items() if place not in own | {logits.data_ptr()})
    with Recorder() as recorder:
        with META:
            network = build(name, **shape)
        blank = torch.empty(16, 3, side, side, device=META)
        recorder.forget_graph()
        before = recorder.heap.live
        output = network(blank)
        recorder.forget_graph()
        alive = recorder.heap.live - before
    assert len(output) == 16
    assert alive == pytest.approx(kept, rel=0.02)


def test_a_heap_fills_its_smallest_hole_and_joins_holes() -> None:
    heap = Heap()
    blocks = [heap.take(size) for size in (1_000, 5_000, 3_000, 1_000)]
    top = heap.top
    assert top == 10_000 + 4 * OVERHEAD
    heap.give_back(blocks[0])
    heap.give_back(blocks[2])
    assert heap.take(1_000 - ALIGNMENT) == blocks[0]
    assert heap.take(3_000) == top  # an equal hole is too small for an aligned block
    heap.give_back(blocks[1])
    assert heap.take(8_000 - ALIGNMENT) == blocks[1] - ALIGNMENT  # with what was left before it
    assert (heap.live, heap.most) == (8_000 - ALIGNMENT + 1_000 - ALIGNMENT + 4_000, 12_872)


def test_files_are_counted_where_nothing_is_prepared(tmp_path: Path) -> None:
    for part, count in (("train", 30), ("test", 10)):
        for label in "ab":
            place = tmp_path / "images" / part / label
            place.mkdir(parents=True)
            for number in range(count):
                (place / f"{number}.png").touch()
            (place / "notes.txt").touch()
    data = {"source": "folder", "root": str(tmp_path / "images"), "train_limit": 50}
    found = facts(Plan(parse(STUDY | {"results": str(tmp_path / "results"), "data": data})))
    assert found.counts == {"train": 45, "val": 5, "test": 20}
    assert (found.read, found.classes, found.image_shape) == (80, 2, (3, 32, 32))
    assert found.origin.startswith("80 files counted in ")


def test_no_result_depends_on_it() -> None:
    entries = ("training.job", "evaluation.job", "data.prepare", "report.build")
    files = [file for entry in entries for file in source_files(f"cemlib.{entry}")]
    assert files
    assert not any(PACKAGE / "memory" in file.parents for file in files)


def test_data_prepared_with_other_settings_are_not_counted(tmp_path: Path) -> None:
    study = STUDY | {"results": str(tmp_path), "attacks": {"mean_image": {}}}
    prepared = Plan(parse(study))
    list(jobs_of_studies.prepare(prepared))
    found, larger = facts(prepared), study["data"] | {"train_limit": 400}
    assert found.origin.startswith("prepared: ")
    assert found.counts == {"train": 144, "val": 16, "test": 100}
    assert facts(Plan(parse(study | {"data": larger}))).counts["train"] == 360
    description = prepared.layout.prepared_facts
    description.write_text(description.read_text().replace("144", "140"))
    with pytest.raises(FileError, match="data"):
        facts(prepared)
