"""The jobs: interruption and resumption, records, failures, wrong input."""

import math
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from killed_job import Dying, first_shown
from result_files import content
from short_study import configure
from tiny_federation import tiny
from torch.nn.functional import cross_entropy

from cemlib.cli import main
from cemlib.config import ConfigError
from cemlib.config.load import load_any as load
from cemlib.config.load import parse_any
from cemlib.federated.attacking import _network, scene_of
from cemlib.federated.drawing import ATTACKED, Draws
from cemlib.federated.gan import Generator
from cemlib.federated.inversion.evaluate import run_attacks
from cemlib.federated.job import read_data, read_pseudo
from cemlib.federated.setting import network_of
from cemlib.records.files import FileError, load_tensors, read_json, read_jsonl
from cemlib.study.federated import attack_folder, attack_job, gans_job, jobs, train_job
from cemlib.study.finished import finished
from cemlib.study.job import records_below, report_files
from cemlib.study.plan import Plan
from cemlib.study.running import rerun_job, run_job


def written(folder: Path, **changes: Any) -> Path:
    return Path(configure(folder, tiny(**changes))[1])


def run(config: Path, *arguments: str) -> int:
    return main(["run", "--config", str(config), *arguments])


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The configuration of a study after all its jobs, in which one variant diverges."""
    variants = tiny()["variants"] | {"wild": {"dp_sgd": {"noise_multiplier": 1e39}}}
    config = written(tmp_path_factory.mktemp("whole"), variants=variants)
    Plan(load(config)).write_config()
    kinds = ("prepare", "gans", "train", "attack", "report")
    assert [run(config, "--only", kind) for kind in kinds] == [0, 0, 3, 3, 0]
    return config


def test_another_attack_leaves_the_finished_ones_as_they_are(whole: Path, tmp_path: Path) -> None:
    """An attack on linked mixtures runs again only if another attack links more than before.

    GANs that are trained again to the same bits change nothing.
    """

    def rerun(**attacks: Any) -> set[str]:
        study = yaml.safe_load(whole.read_text())["inversion"]
        changed = study | {"attacks": study["attacks"] | attacks}
        plan = Plan(load(copy_of(whole, tmp_path / str(len(attacks)), inversion=changed)))
        assert list(rerun_job(gans_job(plan, 0)))
        parts = attack_job(plan, "both", 0).parts
        return {part.of["attack"] for part in parts if not finished(part)}

    more = {"other": {"kind": "mean_image"}}
    assert rerun(**more) == {"other"}
    linked = {"most": {"kind": "mean_image", "linked": {"images": 3, "rounds": 3}}}
    assert rerun(**more, **linked) == {"solved", "other", "most"}


def copy_of(whole: Path, folder: Path, **changes: Any) -> Path:
    """Copy the study to a folder, with other sections; return its configuration."""
    shutil.copytree(whole.parent / "results", folder / "results")
    return Path(configure(folder, yaml.safe_load(whole.read_text()) | changes)[1])


@pytest.fixture
def copied(whole: Path, tmp_path: Path) -> Path:
    """A copy of it, which a test may damage."""
    return copy_of(whole, tmp_path)


def results_of(job):
    return [content(path) for path in job.outputs if path not in job.records]


@pytest.mark.parametrize(
    ("module", "make", "default"),
    [
        # Real GANs keep no checkpoint in their first 20 seconds; a training asks for every round.
        ("pseudo", lambda plan: gans_job(plan, 0), 0.0),
        ("training", lambda plan: train_job(plan, "both", 0), math.inf),
    ],
    ids=["gans", "training"],
)
def test_an_interrupted_job_ends_with_the_same_bits(
    whole, copied, monkeypatch, capsys, module, make, default
):
    ours, theirs = make(Plan(load(copied))), make(Plan(load(whole)))
    (record,) = ours.records
    for path in ours.outputs:
        path.unlink()
    with monkeypatch.context() as patch:
        dying = partial(Dying, writes_left=1, interval=default)
        patch.setattr(f"cemlib.federated.{module}.Checkpoint", dying)
        with pytest.raises(KeyboardInterrupt):
            list(rerun_job(ours))
    assert not record.exists()
    capsys.readouterr()
    list(rerun_job(ours))
    assert first_shown(capsys.readouterr().err) == 2
    assert results_of(ours) == results_of(theirs)


def test_a_whole_study_runs_once_and_leaves_records_tables_and_figures(whole, capsys):
    plan = Plan(load(whole))
    found = jobs(plan)
    for path in records_below(plan.layout.root / "runs", found):
        record = read_json(path)
        assert record["status"] == ("failed" if "wild" in path.parts else "ok")
        assert set(record["provenance"]) >= {"fingerprint", "commit", "versions", "device"}
    for path in report_files(found):
        assert path.stat().st_size > 100
    assert run(whole) == 3
    told = capsys.readouterr().out
    assert "metrics.json" not in told
    assert told.startswith("0 jobs run, ")
    assert "\nfailed: wild/seed0: " in told


def test_a_diverged_training_is_a_failed_result_and_shown_as_one(whole):
    plan = Plan(load(whole))
    record = read_json(plan.layout.run("wild", 0).metrics)
    assert record["reason"].startswith("round 1: no answer holds finite numbers")
    assert record["top1"] is record["round_seconds"] is None
    attacked = read_json(attack_folder(plan, "wild", 0, "idlg").metrics)
    assert "the training failed" in attacked["reason"]
    assert "failed" in (plan.layout.tables / "accuracy.md").read_text()
    lines = (plan.layout.tables / "cost.md").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith("| wild"))
    assert [cell.strip() for cell in line.split("|")][2:6] == ["failed", "-", "-", "-"]


@pytest.mark.parametrize("variant", tiny()["variants"])
def test_a_record_has_the_scores_of_its_weights_and_the_sums_of_its_rounds(whole, variant):
    """After so few steps, the losses of validation and test images are close: hence six digits."""
    plan = Plan(load(whole))
    folder, data = plan.layout.run(variant, 0), read_data(train_job(plan, variant, 0))
    record, rows = read_json(folder.metrics), read_jsonl(folder.history)
    net = network_of(plan.study, data, 0).double()
    net.load_state_dict(load_tensors(folder.model))
    logits, labels = net(data.test.images.double() / 255), data.test.labels
    assert record["top1"] == (logits.argmax(1) == labels).double().mean().item()
    assert record["loss"] == pytest.approx(cross_entropy(logits, labels).item(), rel=1e-6)
    for key in ("asked", "dropped", "excluded", "bytes_up", "bytes_down"):
        assert record[key] == sum(row[key] for row in rows)


def test_mixtures_that_are_attacked_are_of_the_client_of_their_gradient(whole):
    """Two images behind each gradient, four clients: the fifth gradient is of the first again."""
    attacked = {"images": 10, "batch_size": 2, "attacks": {"idlg": {}}}
    plan = Plan(parse_any(yaml.safe_load(whole.read_text()) | {"inversion": attacked}))
    job, mixing = attack_job(plan, "both", 0), plan.study.variants["both"].mixing
    data, generators = read_data(job), load_tensors(plan.layout.gans(0).generators)
    found = scene_of(job, data)
    for i, client in enumerate((0, 0, 1, 1, 2, 2, 3, 3, 0, 0)):
        own, draws = Generator((1, 8, 8), 10, 16, 8), Draws(0, client, ATTACKED)
        own.load_state_dict({name: tensor[client] for name, tensor in generators.items()})
        image, share = data.test.images[i] / 255, draws.ratios(mixing, 10)[i]
        made = own(draws.latents(10, 16)[i : i + 1], data.test.labels[i : i + 1])[0]
        expected = (share * image + (1 - share) * made).detach()
        torch.testing.assert_close(found.trained[i], expected, rtol=1e-5, atol=1e-6)
        assert torch.equal(found.images[i], image)
        assert (found.labels[i], found.ratio[i]) == (data.test.labels[i], share)


def test_its_runs_are_listed_with_the_attacks_on_them(whole, capsys):
    assert main(["list", "runs", "--config", str(whole)]) == 0
    found = {line.split()[0]: line.split() for line in capsys.readouterr().out.splitlines()[1:]}
    assert found["gans/seed0"][1:5] == ["finished", "2", "-", "-"]
    assert found["both/seed0"][1:3] == ["finished", "3"]
    assert found["both/seed0"][4:] == ["3/3"]
    assert found["wild/seed0"][1] == "failed"
    assert "no answer holds finite numbers" in " ".join(found["wild/seed0"])


def test_gans_that_diverge_at_once_fail_what_mixes_and_nothing_else(tmp_path, capsys):
    config = written(tmp_path, gan={"lr": 1e30})
    assert [run(config, "--only", only) for only in ("prepare", "gans", "train")] == [0, 3, 3]
    assert "failed: both/seed0: the clients' GANs failed: epoch 1" in capsys.readouterr().out
    layout = Plan(load(config)).layout
    ended = [read_json(layout.run(name, 0).metrics)["status"] for name in tiny()["variants"]]
    assert ended == ["ok", "failed", "ok"]
    job = train_job(Plan(load(config)), "both", 0)
    with pytest.raises(FileError, match="the clients' GANs failed: epoch 1"):
        read_pseudo(job, read_data(job))  # as the Flower app does


def test_a_lost_attack_is_carried_out_again_alone(copied, monkeypatch):
    plan, searched = Plan(load(copied)), []

    def noted(net, scene, variant, attacks, **options):
        searched.extend(attacks)
        return run_attacks(net, scene, variant, attacks, **options)

    monkeypatch.setattr("cemlib.federated.attacking.run_attacks", noted)
    job = attack_job(plan, "both", 0)
    lost = job.parts[-1]
    scores = next(path for path in lost.outputs if path.suffix == ".parquet")
    before = scores.read_bytes()
    for path in lost.outputs:
        path.unlink()
    assert {Path(written) for written in run_job(job)} <= {*lost.outputs}
    assert searched == [lost.of["attack"]]
    assert scores.read_bytes() == before


def test_a_damaged_generator_is_refused_by_name(copied, capsys):
    generators = Plan(load(copied)).layout.gans(0).generators
    content = bytearray(generators.read_bytes())
    content[-1] ^= 1
    generators.write_bytes(content)
    assert run(copied, "--only", "train/both") == 2
    assert "generators.safetensors: damaged" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--only", "train/bot"), "train/both"),
        (("--only", "train"), "data.json: no such file"),
        (("--only", "report"), "metrics.json: no such file"),
    ],
)
def test_a_wrong_call_is_told_in_a_line(tmp_path, capsys, arguments, message):
    assert run(written(tmp_path), *arguments) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ("system: fedrated", "system: 'fedrated' is not one of split, pctc"),
        ("reference: nobody", "reference: 'nobody'"),
        ("variants: {none: {mixing: {lam: 0.5, beta: [1, 1]}}}", "either lam"),
        ("variants: {none: {mixing: {beta: [0, 1]}}}", "above 0"),
        ("variants: {none: {mask: {}, dp_sgd: {}}}", "cannot be combined"),
        ("data: {image_size: 10}", "not a multiple of 4"),
        ("inversion: {images: 5, batch_size: 2, attacks: {idlg: {}}}", "5 is not a multiple of 2"),
        ("inversion: {attacks: {dgl: {}}}", "dgl"),
        (
            "inversion: {images: 4, batch_size: 2, attacks: {idlg: {linked: {}}}}",
            "attacks.idlg: it needs gradients of single images",
        ),
        ("inversion: {attacks: {idlg: {unmix: true, linked: {}}}}", "either unmix or linked"),
        (
            "inversion: {images: 4, local_steps: 2, attacks: {idlg: {mask: known}}}",
            "attacks.idlg: it needs gradients of a single step",
        ),
    ],
)
def test_a_faulty_configuration_names_the_key(changes, message):
    with pytest.raises(ConfigError, match=message.replace("(", r"\(")):
        parse_any(tiny(**yaml.safe_load(changes)))


@pytest.mark.parametrize(
    ("changes", "jobs", "message"),
    [
        (
            "variants: {none: {mask: {beta: 11}}}",
            ["train/none"],
            "variants.none.mask.beta: 11 outputs, the data have 10",
        ),
        (
            "inversion: {images: 61, attacks: {mean_image: {}}}",
            ["attack/none"],
            "inversion.images: 61 wanted, the test split has 60",
        ),
        (
            "{variants: {none: {mixing: {lam: 0.5}}},"
            " inversion: {attacks: {mean_image: {linked: {images: 40}}}}}",
            ["train/none", "attack/none"],
            "linked.images: 40 wanted, the test split has",
        ),
    ],
)
def test_what_the_data_do_not_allow_is_refused(whole, tmp_path, capsys, changes, jobs, message):
    config = copy_of(whole, tmp_path, **yaml.safe_load(changes))
    *before, last = jobs
    assert [run(config, "--only", job) for job in before] == [0] * len(before)
    assert run(config, "--only", last) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("model", "variant"), [({"activation": "relu"}, {"mask": {}}), ({"name": "resnet18"}, {})]
)
def test_updates_at_trained_weights_are_attacked(tmp_path, model, variant):
    """Updates of two steps on two images each, with networks that no other test trains."""
    attacks = {"cosine": {"mask": "layer", "iterations": 1}}
    inversion = {"images": 4, "batch_size": 2, "local_steps": 2, "weights": "final"}
    config = written(
        tmp_path,
        model=model,
        clients={"participation": 0.25, "dropout": 0.0},
        train={"rounds": 1, "local_steps": 1, "batch_size": 4},
        variants={"none": variant},
        inversion=inversion | {"attacks": attacks},
    )
    for only in ("prepare", "train", "attack", "report"):
        assert run(config, "--only", only) == 0
    plan = Plan(load(config))
    folder = attack_folder(plan, "none", 0, "cosine")
    record = read_json(folder.metrics)
    told = (plan.layout.tables / "privacy.md").read_text()
    assert "4 test images are attacked, 4 behind each update of 2 steps at the rate 0" in told
    assert (record["status"], record["n_images"]) == ("ok", 4)
    assert (folder.root.name, len(read_jsonl(folder.history))) == ("cosine-layer", 2)
    job = attack_job(plan, "none", 0)
    data = read_data(job)
    ours, start = _network(job, data).state_dict(), network_of(plan.study, data, 0).state_dict()
    for name, tensor in load_tensors(plan.layout.run("none", 0).model).items():
        assert torch.equal(ours[name], tensor)
        assert not torch.equal(ours[name], start[name])


def is_finished(plan: Plan, name: str) -> bool:
    (job,) = (job for job in jobs(plan) if job.name == name)
    return finished(job)


def test_a_training_is_repeated_when_what_decides_it_changes(copied, monkeypatch):
    """Other generators do; the code that trains them does not."""
    plan = Plan(load(copied))
    assert is_finished(plan, "train/both/seed0")
    monkeypatch.setattr("cemlib.federated.pseudo.EXTRACTOR_STEPS", 1)
    assert run(copied, "--only", "gans") == 0
    assert is_finished(plan, "gans/seed0")
    assert not is_finished(plan, "train/both/seed0")
    assert is_finished(plan, "train/none/seed0")
    settings = yaml.safe_load(copied.read_text())
    other = Plan(parse_any(settings | {"train": {"rounds": 4}}))
    assert not is_finished(other, "train/none/seed0")
