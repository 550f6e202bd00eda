"""Attack single gradients of one variant with one seed, and write the results."""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from cemlib.config.federated import Mixing
from cemlib.config.federated_attacks import Linked
from cemlib.data import DataError
from cemlib.data.prepared import Prepared, to_float
from cemlib.evaluation.pictures import COLUMNS, write_strip
from cemlib.federated.drawing import ATTACKED, LINKED, Draws
from cemlib.federated.gan_training import Pseudo
from cemlib.federated.inversion.evaluate import Finding, run_attacks
from cemlib.federated.inversion.scene import Repeats, Scene
from cemlib.federated.inversion.scoring import SCORES, failed_row
from cemlib.federated.job import read_data, read_pseudo, run_of, variant_of, write_record
from cemlib.federated.network import FederatedNet
from cemlib.federated.setting import network_of
from cemlib.records.files import load_tensors, write_bytes, write_jsonl
from cemlib.records.layout import AttackFolder
from cemlib.records.seal import FILES, checked, read_sealed
from cemlib.study.federated import FederatedJob

CURVE = 20  # points of an attack's curve that are kept


def run(job: FederatedJob) -> Iterator[Path]:
    """Carry out all attacks on one training, yielding each record when it is written.

    The gradients are of the first test images. Gradient i belongs to client i modulo the number of
    clients. Masks, noise and mixtures are drawn as in training.
    """
    start, inversion, data = time.perf_counter(), job.plan.study.inversion, read_data(job)
    if len(data.test) < inversion.images:
        raise DataError(
            f"inversion.images: {inversion.images} wanted, the test split has {len(data.test)};"
            " lower it, or raise data.test_limit"
        )
    run_record = read_sealed(run_of(job).metrics, ("status", "reason", "generators_sha256", FILES))
    attacks = {part.of["attack"]: inversion.attacks[part.of["attack"]] for part in job.parts}
    if run_record["reason"] is None:
        findings = run_attacks(
            _network(job, data),
            scene_of(job, data),
            variant_of(job),
            attacks,
            seed=job.of["seed"],
            batch=inversion.behind,
            steps=inversion.local_steps,
            lr=job.plan.study.train.lr,
        )
    else:
        nothing = _nothing(job, data, f"the training failed: {run_record['reason']}")
        findings = dict.fromkeys(attacks, nothing)
    for part in job.parts:
        facts = {
            "model_sha256": run_record[FILES]["model.safetensors"],
            "generators_sha256": run_record["generators_sha256"],
            "wall_seconds": (time.perf_counter() - start) / len(job.parts),
        }
        yield _write(part, findings[part.of["attack"]], data, facts)


def _nothing(job: FederatedJob, data: Prepared, reason: str) -> Finding:
    """Return the finding for an attack on a failed training: no scores, and grey pictures."""
    count = job.plan.study.inversion.images
    labels = data.test.labels[:count].tolist()
    rows = [failed_row(image, label, reason) for image, label in enumerate(labels)]
    grey = torch.full(data.test.images[:count].shape, 0.5)
    return Finding(rows, grey, torch.zeros(count, 0))


def scene_of(job: FederatedJob, data: Prepared) -> Scene:
    """Return the attacked images, the images that clients train on, and the attacker's prior."""
    study, mixing = job.plan.study, variant_of(job).mixing
    count, clients = study.inversion.images, study.clients.number
    images, labels = to_float(data.test.images[:count]), data.test.labels[:count]
    prior, spread = class_moments(data)
    if mixing is None:
        return Scene(images, labels, images, torch.ones(count, device=images.device), prior)
    behind = study.inversion.behind  # images of one gradient, which are of one client
    pseudo, owners = read_pseudo(job, data), [i // behind % clients for i in range(count)]
    draws = [Draws(job.of["seed"], owner, ATTACKED) for owner in owners]
    share = torch.stack([own.ratios(mixing, count)[i] for i, own in enumerate(draws)])
    noise = torch.stack([own.latents(count, study.gan.latent)[i] for i, own in enumerate(draws)])
    alone = (images[:, None], labels[:, None], owners, noise[:, None], share[:, None])
    linked = [attack.linked for attack in study.inversion.attacks.values() if attack.linked]
    repeats = None
    if linked:
        mixtures = _mixtures(job, data, pseudo, mixing, linked)
        mean = float(mixing.lam or 0) if mixing.beta is None else mixing.beta[0] / sum(mixing.beta)
        repeats = Repeats(mixtures, mean, spread)
    return Scene(images, labels, pseudo.mixed(*alone)[:, 0], share.to(images), prior, repeats)


def _mixtures(
    job: FederatedJob, data: Prepared, pseudo: Pseudo, mixing: Mixing, linked: Sequence[Linked]
) -> Tensor:
    """Return the mixtures (N, M, R, C, H, W) of test images that attackers link; see `Repeats`."""
    study, found = job.plan.study, []
    images = max(each.images for each in linked)
    rounds = max(each.rounds for each in linked) if mixing.pseudo == "fresh" else 1
    for i in range(study.inversion.images):
        label, owner = data.test.labels[i], i % study.clients.number
        others = (data.test.labels == label).nonzero().flatten().tolist()
        rows = [i, *(row for row in others if row != i)][:images]
        if len(rows) < images:
            raise DataError(
                f"inversion.attacks: linked.images: {images} wanted, the test split has {len(rows)}"
                f" of class {data.classes[int(label)]}; lower it, or raise data.test_limit"
            )
        drawn, count = Draws(job.of["seed"], owner, LINKED - i), images * rounds
        x = to_float(data.test.images[rows]).repeat_interleave(rounds, 0)
        noise, share = drawn.latents(count, study.gan.latent), drawn.ratios(mixing, count)
        mixed = pseudo.mixed(x[None], label.expand(1, count), [owner], noise[None], share[None])
        found.append(mixed[0].view(images, rounds, *data.image_shape))
    return torch.stack(found)


def class_moments(data: Prepared) -> tuple[Tensor, Tensor]:
    """Return each class's mean validation image, and its variance, averaged over the pixels.

    The means are (classes, C, H, W), the unbiased variances (classes,). A class with fewer than two
    images gets those of all images.
    """
    images, labels = to_float(data.val.images), data.val.labels
    members = [images[labels == label] for label in range(len(data.classes))]
    members = [of_class if len(of_class) > 1 else images for of_class in members]
    means, variances = zip(*((each.mean(0), each.var(0).mean()) for each in members), strict=True)
    return torch.stack(means), torch.stack(variances)


def _network(job: FederatedJob, data: Prepared) -> FederatedNet:
    net = network_of(job.plan.study, data, job.of["seed"])
    if job.plan.study.inversion.weights == "final":
        net.load_state_dict(load_tensors(checked(run_of(job).model)))
    return net.to(job.processor())


def _write(job: FederatedJob, found: Finding, data: Prepared, facts: dict[str, Any]) -> Path:
    """Write one attack's files, its record last."""
    folder, named = AttackFolder(job.folder), {"attack": job.of["attack"]}
    folder.metrics.unlink(missing_ok=True)
    shown = found.pictures[:COLUMNS].nan_to_num(0.5).cpu()
    originals = to_float(data.test.images[: len(shown)]).cpu()
    write_strip(folder.reconstructions, originals, shown)
    write_jsonl(folder.history, _curve(found.curve))
    rows = pd.DataFrame([{"defence": job.of["variant"], **named, **row} for row in found.rows])
    write_bytes(folder.per_image, rows.to_parquet(index=False))
    failed = [row["reason"] for row in found.rows if row["status"] != "ok"]
    reason = f"{len(failed)} of {len(found.rows)} images: {failed[0]}" if failed else None
    known = {"knowledge": folder.root.name.rpartition("-")[2]}
    names = (*SCORES, "label_right")
    means = {n: None if failed else sum(map(float, rows[n])) / len(rows) for n in names}
    found_means = named | known | means | {"n_images": len(rows)} | facts
    write_record(job, "attack", data, reason, found_means)
    return folder.metrics


def _curve(curve: Tensor) -> list[dict[str, Any]]:
    """Return the attack's own loss at evenly spaced steps, averaged over the gradients."""
    means = curve.double().nanmean(0)
    steps = torch.linspace(0, len(means) - 1, min(CURVE, len(means))).round().long().tolist()
    return [{"epoch": step + 1, "loss": float(means[step])} for step in steps]
