"""Flipped bits and lost ends in every kind of result file: refused, or of no consequence.

Each damage is done to one file of a finished study, and whoever reads that file reads it again.
"""

import os
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import short_study
from damaging import cut, flipped
from short_study import REFINEMENT, SMALL, configure

from cemlib.cli import main
from cemlib.config import parse
from cemlib.data.prepared import load as load_prepared
from cemlib.evaluation.job import attempt, read_scene
from cemlib.records.checkpoint import Checkpoint
from cemlib.records.files import FileError, read_json, sha256, write_json
from cemlib.records.seal import FILES, OWN, read_sealed, write_sealed
from cemlib.report.tables import collect
from cemlib.study.finished import finished, mismatches, refuse
from cemlib.study.job import owners
from cemlib.study.plan import Plan
from cemlib.study.split import attack_job, jobs, train_job
from cemlib.tracking.results import read_result

STUDY = short_study.STUDY | {
    "attacks": {
        "decoder": SMALL,
        "refinement": REFINEMENT | {"iterations": 1},
        "mean_image": {},
    },
}
RUN, ATTACK = "runs/clustering/seed0", "runs/clustering/seed0/attacks/decoder-train_data"
# Damages of each file, read by each of its readers: 96 in all, or 2,400.
PLACES = [4, pytest.param(100, marks=pytest.mark.slow)]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the finished study, not to be changed."""
    folder = tmp_path_factory.mktemp("damaged")
    assert [cemlib(folder, command) for command in ("prepare", "train", "attack")] == [0, 0, 0]
    return folder


@pytest.fixture
def study(base: Path, tmp_path: Path) -> "Readers":
    shutil.copytree(base / "results", tmp_path / "results")
    return Readers(tmp_path)


def cemlib(folder: Path, *arguments: str) -> int:
    return main([*arguments, *configure(folder, STUDY)])


@dataclass
class Readers:
    """The ways in which a study's files are read."""

    folder: Path

    @property
    def plan(self) -> Plan:
        return Plan(parse(STUDY | {"results": str(self.folder / "results")}), device="cpu")

    @property
    def root(self) -> Path:
        return self.plan.layout.root

    def prepared(self) -> Any:
        found = load_prepared(self.plan.layout.data)
        tensors = [t for part in found.parts().values() for t in (part.images, part.labels)]
        tensors += found.indices.values()
        facts = (found.mean, found.std, found.classes, found.image_shape, found.provenance)
        return [t.tolist() for t in tensors], facts, found.duplicates_train_test

    def attacked(self) -> Any:
        """What an attack takes from a run."""
        metrics = read_sealed(self.plan.layout.run("clustering", 0).metrics)
        job = attack_job(self.plan, "clustering", 0, ["refinement"])
        scene = read_scene(job, load_prepared(self.plan.layout.data))
        return metrics, _content(scene.victim), _content(scene.judge)

    def begun_with(self) -> Callable[[], Any]:
        """An attack that begins with the decoder, on a scene that is set once."""
        job = attack_job(self.plan, "clustering", 0, ["refinement"])
        scene = read_scene(job, load_prepared(self.plan.layout.data))

        def begun() -> Any:
            with TemporaryDirectory() as folder:
                found = attempt(job, scene, "train_data", Checkpoint(Path(folder)))
            return found if isinstance(found, str) else found.reconstructions.tolist()

        return begun

    def tables(self) -> Any:
        found = jobs(self.plan)[-1].inputs
        return [frame.to_csv() for frame in collect(found["runs"], found["attacks"])]

    def uploaded(self, folder: str) -> Any:
        found = read_result(self.root, self.root / folder / "metrics.json")
        files = {name: file for name, file in found.artifacts.items() if name != "metrics.json"}
        return found.status, found.tags, found.params, found.scores, found.curves, files


def _content(deployed: Any) -> Any:
    weights = {name: t.tolist() for name, t in deployed.model.state_dict().items()}
    return weights, repr(deployed.model), repr(vars(deployed.channel))


def reads_after_damage(file: Path, read: Callable[[], Any], places: int) -> tuple[int, int]:
    """Flip a bit of a file in some places, or once in four lose an end of it.

    Returns how often it was refused and how often read.
    """
    before, content, draws = read(), file.read_bytes(), random.Random(file.name)
    complaints = []
    for number in range(places):
        file.write_bytes((cut if number % 4 == 3 else flipped)(content, draws))
        try:
            assert read() == before, "another number, and no error"
        except FileError as error:
            complaints.append(str(error))
    file.write_bytes(content)
    assert read() == before
    for complaint in complaints:
        assert str(file) in complaint
        assert "rerun" in complaint or "run the study again" in complaint
    return len(complaints), places - len(complaints)


CASES = {
    "data/prepared.safetensors": ("prepared",),
    "data/data.json": ("prepared",),
    "judge/model.safetensors": ("attacked",),
    "judge/config.json": ("attacked",),
    "judge/metrics.json": ("attacked",),
    f"{RUN}/model.safetensors": ("attacked",),
    f"{RUN}/config.json": ("attacked", "uploaded"),
    f"{RUN}/metrics.json": ("attacked", "tables", "uploaded"),
    f"{RUN}/history.jsonl": ("tables", "uploaded"),
    f"{ATTACK}/metrics.json": ("tables", "uploaded", "begun_with"),
    f"{ATTACK}/attacker.safetensors": ("begun_with",),
    f"{ATTACK}/history.jsonl": ("tables", "uploaded"),
    f"{ATTACK}/per_image.parquet": ("tables", "uploaded"),
    f"{ATTACK}/reconstructions.png": ("tables", "uploaded"),
    f"{ATTACK}/extremes.png": ("uploaded",),
}


@pytest.mark.parametrize("places", PLACES)
@pytest.mark.parametrize("name", CASES)
def test_damage_is_refused_or_changes_nothing(study: Readers, name: str, places: int) -> None:
    """Only a record may be read after it: where a flip left all of its values as they were."""
    file = study.root / name
    for reader in CASES[name]:
        read = getattr(study, reader)
        if reader == "uploaded":
            read = partial(read, str(Path(name).parent))
        if reader == "begun_with":
            read = read()
        refused, unharmed = reads_after_damage(file, read, places)
        assert refused > 0
        assert unharmed == 0 or file.name in ("metrics.json", "data.json")


def flip_last_bit(file: Path) -> None:
    content = file.read_bytes()
    file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))


@pytest.mark.parametrize(
    ("name", "reader", "writer"),
    [
        (f"{RUN}/model.safetensors", "attack", "train --defence clustering --seed 0"),
        (
            f"{ATTACK}/per_image.parquet",
            "report --only tables",
            "attack --defence clustering --seed 0 --attack decoder",
        ),
    ],
)
def test_a_damaged_file_stops_its_readers_until_it_is_made_again(
    study: Readers, capsys: pytest.CaptureFixture[str], name: str, reader: str, writer: str
) -> None:
    file = study.root / name
    before = file.read_bytes()
    flip_last_bit(file)
    assert cemlib(study.folder, *reader.split()) == 2
    (line,) = (x for x in capsys.readouterr().err.splitlines() if x.startswith("error: "))
    assert line.startswith(f"error: {file}: damaged or changed after it was written")
    assert line.endswith(f"delete {file.with_name('metrics.json')} and run the study again")
    assert not (study.root / "tables").exists()
    assert cemlib(study.folder, *writer.split()) == 0
    assert file.read_bytes() == before
    assert cemlib(study.folder, *reader.split()) == 0


@pytest.mark.parametrize("spoil", [flip_last_bit, Path.unlink])
def test_the_runner_makes_again_what_is_spoilt(
    study: Readers, spoil: Callable[[Path], None]
) -> None:
    """Every file by itself."""
    plan = study.plan
    run = plan.layout.run("clustering", 0)
    attacked = run.attack("decoder", "public_data")
    trained = train_job(plan, "clustering", 0)
    decoded = attack_job(plan, "clustering", 0, ["decoder"])
    assert finished(trained)
    assert finished(decoded)
    for file in (*run.files(), *attacked.files()):
        content, times = file.read_bytes(), file.stat()
        spoil(file)
        if file.parent == run.root:
            assert not finished(trained), file
        else:
            assert not finished(decoded), file
        file.write_bytes(content)
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert finished(trained)
    assert finished(decoded)


@pytest.mark.parametrize(
    ("key", "read"),
    [
        ("model_sha256", f"{RUN}/model.safetensors"),
        ("judge_sha256", "judge/model.safetensors"),
        ("data_sha256", "data/prepared.safetensors"),
        ("start_train_data_sha256", f"{ATTACK}/attacker.safetensors"),
    ],
)
def test_an_attack_that_read_other_files_is_no_result(study: Readers, key: str, read: str) -> None:
    metrics = study.root / RUN / "attacks/refinement-train_data/metrics.json"
    record = read_json(metrics)
    assert record[key] == sha256(study.root / read)
    write_sealed(metrics, record | {key: "0" * 64})
    with pytest.raises(FileError, match=rf"refinement-train_data: made from another .*{read}"):
        refuse(mismatches(owners(jobs(study.plan))))


def test_a_decoder_runs_again_before_the_attack_that_begins_with_it(study: Readers) -> None:
    changed = ["--set", "attacks.decoder.lr=0.002"]
    again = ["attack", "--attack", "refinement", "--attack", "decoder", *changed]
    assert cemlib(study.folder, *again) == 0
    own = read_json(study.root / RUN / "attacks/refinement-train_data/metrics.json")
    decoder = study.root / ATTACK / "attacker.safetensors"
    assert own["start_train_data_sha256"] == sha256(decoder)
    assert own["config"]["start"]["lr"] == 0.002


@pytest.mark.parametrize("gone", [(FILES, OWN), (OWN,)])
def test_a_record_without_its_checksums_is_refused(study: Readers, gone: tuple[str, ...]) -> None:
    metrics = study.root / RUN / "metrics.json"
    write_json(metrics, {k: v for k, v in read_json(metrics).items() if k not in gone})
    with pytest.raises(FileError, match="damaged or changed after it was written"):
        read_sealed(metrics)


@pytest.mark.parametrize("value", [-5, 96.5])
def test_a_score_that_cannot_be_is_refused(study: Readers, value: float) -> None:
    """Also where the record says that it was written so: per cent for a share, say."""
    metrics = study.root / RUN / "metrics.json"
    write_sealed(metrics, read_json(metrics) | {"top1": value})
    for read in (study.tables, lambda: study.uploaded(RUN)):
        with pytest.raises(FileError, match=rf"top1 is {value}, not between 0 and 1"):
            read()


def test_an_upload_of_one_defence_reads_no_record_of_another(study: Readers) -> None:
    shutil.copytree(study.root / RUN, study.root / "runs/noise/seed0")
    (study.root / "runs/noise/seed0/metrics.json").write_text("{")
    upload = ["track", "--uri", f"sqlite:///{study.folder}/mlflow.db", "--set", "defences.noise={}"]
    assert cemlib(study.folder, *upload) == 2
    assert cemlib(study.folder, *upload, "--defence", "clustering") == 0
