"""The attack job: some attacks on one finished run, each with both kinds of knowledge."""

import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import torch

from cemlib.attacks.task import Outcome
from cemlib.config.study import Study
from cemlib.data.prepared import Prepared, load, to_float
from cemlib.defences.deployed import load_deployed
from cemlib.evaluation.pictures import extremes, showcase, write_strip
from cemlib.evaluation.scene import Scene, first_target, start_failed, targets
from cemlib.evaluation.scores import NAMES, Attacked, means, per_image, scored, write_per_image
from cemlib.numerics.precision import resolve, set_up
from cemlib.records.checkpoint import Checkpoint
from cemlib.records.files import FileError, load_tensors, save_tensors, sha256, write_jsonl
from cemlib.records.layout import KNOWLEDGES, RunFolder
from cemlib.records.scores import RECOGNITION
from cemlib.records.seal import checked, read_sealed, write_sealed
from cemlib.study.job import DATA, FOREIGN, Job


def run(job: Job[Study]) -> Iterator[Path]:
    """Carry out the job's attacks, and yield the path of each one's metrics.

    An attack on a failed run, or one that diverges, ends as `failed` with null scores. Checkpoints
    are kept until everything is written, so that a killed job trains no decoder twice.
    """
    data = read_data(job)
    metrics = read_sealed(attacked_run(job).metrics, ("status", "reason"))
    parts, checkpoints = job.parts or (job,), []
    # Taken before the files are read: if one is replaced later, the result is out of date.
    first = {"data_sha256": data.sha256} | _checksums(parts[0], before=True)
    scene = read_scene(job, data) if metrics["status"] == "ok" else None
    for part, knowledge in product(parts, KNOWLEDGES):
        start, read = time.perf_counter(), first | _checksums(part, before=False)
        if scene is None:
            reason = f"the attacked run failed: {metrics['reason']}"
            found = _not_begun(part, data, knowledge, reason)
        else:
            checkpoints.append(checkpoint := _checkpoint(part, knowledge, read))
            outcome = attempt(part, scene, knowledge, checkpoint)
            checkpoint.write_kept()  # a job killed later must not repeat this attack
            found = scored(scene, part.of["attack"], knowledge, outcome)
        yield _write(part, data, found, read, start)
    for checkpoint in checkpoints:
        checkpoint.remove()


def read_data(job: Job[Study]) -> Prepared:
    """Set up the process for a job's device, and return the job's prepared data on it."""
    device = job.processor()
    set_up(device, job.plan.study.threads)
    return load(job.plan.layout.data).to(device)


def _checksums(job: Job[Study], *, before: bool) -> dict[str, str]:
    """Return `<role>_sha256` of what is read before all attacks, or of the decoders of one.

    That of foreign weights is left out, since no record beside them holds it.
    """
    return {
        f"{role}_sha256": sha256(files[0])
        for role, files in job.inputs.items()
        if role not in (DATA, FOREIGN) and role.startswith("start_") != before
    }


def attacked_run(job: Job[Study]) -> RunFolder:
    """Return the folder of the attacked run; an attack reads nothing else of the training."""
    return job.plan.layout.run(job.of["defence"], job.of["seed"])


def read_scene(job: Job[Study], data: Prepared) -> Scene:
    """Return the scene of a job's attacks, from the files of the attacked run and of the judge.

    Raises:
        FileError: if there is no judge, or its training diverged.
    """
    of, device, place = job.of, job.processor(), job.plan.layout.judge
    metrics = read_sealed(place.metrics, ("status", "reason"))
    if metrics["status"] != "ok":
        raise FileError(
            f"{place.metrics}: the undefended judge diverged ({metrics['reason']});"
            " without it no reconstruction can be recognised: change the settings of train"
        )
    victim, judge = load_deployed(attacked_run(job), device), load_deployed(place, device)
    return Scene(job.plan.study, of["defence"], of["seed"], data, victim, judge)


def attempt(job: Job[Study], scene: Scene, knowledge: str, checkpoint: Checkpoint) -> Outcome | str:
    """Return the outcome of one attack, from the decoder that it begins with, or why it failed."""
    attack, decoder = job.of["attack"], None
    start = scene.study.attacks[attack].begins_with
    if start is not None:
        folder = attacked_run(job).attack(start, knowledge)
        found = read_sealed(folder.metrics, ("status", "reason"))
        if found["status"] != "ok":
            return start_failed(start, found["reason"])
        try:
            decoder = scene.decoder(start, load_tensors(checked(folder.attacker)))
        except RuntimeError as error:
            raise FileError(f"{folder.attacker}: no decoder of this study ({error})") from error
    return scene.attempt(attack, knowledge, checkpoint, decoder)


def _checkpoint(job: Job[Study], knowledge: str, read: dict[str, str]) -> Checkpoint:
    """Return an attack's checkpoint; its name depends on the checksums of all that is read."""
    device, foreign = job.processor(), map(sha256, job.inputs.get(FOREIGN, ()))
    origin = (*read.values(), *foreign, knowledge)
    return Checkpoint(job.checkpoint(*origin, device.type, resolve("auto", device)))


def _not_begun(job: Job[Study], data: Prepared, knowledge: str, reason: str) -> Attacked:
    """Return the result of an attack that could not start."""
    of, originals = job.of, targets(data, knowledge).images
    queries = job.plan.study.attacks[of["attack"]].releases
    which = (of["defence"], of["seed"], of["attack"], knowledge, queries)
    return Attacked(*which, to_float(originals).cpu(), reason)


def _write(
    job: Job[Study], data: Prepared, found: Attacked, read: dict[str, str], start: float
) -> Path:
    """Write an attack's files, and return the path of the metrics.

    A failed attack has no scores, and grey pictures. The metrics come last: a folder with metrics
    is complete.
    """
    answers, columns, scores = found.reconstructions, found.per_image, found.scores
    if answers is None:
        answers = torch.full_like(found.originals, 0.5)
        columns = per_image(answers[:0], answers[:0])
        scores = means(columns) | dict.fromkeys((*RECOGNITION, "late_improvement", "converged"))
        columns["recognised"] = torch.zeros(0).bool()
    folder = attacked_run(job).attack(found.attack, found.knowledge)
    labels = data.test.labels.cpu()
    first = first_target(found.knowledge, len(labels))
    folder.metrics.unlink(missing_ok=True)  # of an older attack, which had other files
    save_tensors(folder.attacker, found.state)
    write_jsonl(folder.history, found.history)
    write_per_image(folder.per_image, first, labels, columns)
    shown = [i - first for i in showcase(labels, first_target("public_data", len(labels)))]
    ends = extremes(columns["mse"]) or shown
    for path, rows in ((folder.reconstructions, shown), (folder.extremes, ends)):
        write_strip(path, found.originals[rows], answers[rows])
    metrics = _metrics(job, found, scores) | read | {"wall_seconds": time.perf_counter() - start}
    write_sealed(folder.metrics, metrics, [f for f in folder.files() if f != folder.metrics])
    return folder.metrics


def _metrics(job: Job[Study], found: Attacked, scores: dict[str, Any]) -> dict[str, Any]:
    settings = job.plan.study.attacks[found.attack]
    return {
        "kind": "attack",
        **{name: getattr(found, name) for name in NAMES},
        "precision": resolve(getattr(settings, "precision", "float32"), job.processor()),
        **scores,
        "n_images": len(found.originals) if found.reason is None else 0,
        **job.record(found.reason),
    }
