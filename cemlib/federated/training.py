"""Train one variant with one seed: rounds, checkpoints, the record."""

import time
from pathlib import Path

from cemlib.config.errors import ConfigError
from cemlib.data.prepared import Prepared, checksum, load
from cemlib.federated.adversaries import make_generator
from cemlib.federated.private import epsilon
from cemlib.federated.record import run_of, variant_of, write_record
from cemlib.federated.rounds import Federation, Pseudo, score
from cemlib.numerics.precision import set_up
from cemlib.records.checkpoint import Checkpoint, Resumed
from cemlib.records.files import load_tensors, save_tensors, write_json, write_jsonl
from cemlib.records.seal import checked, read_sealed
from cemlib.study.federated import FederatedJob

SHOWN = ("train_loss", "val_top1")
SCORES = ("top1", "loss", "val_top1", "val_loss", "epsilon")


def run(job: FederatedJob) -> list[Path]:
    """Train; write the run's folder and return its record's path.

    A run that diverges is finished too: its status is `failed`, its scores are null.

    Raises:
        ConfigError: if a mask is of more outputs than there are classes.
        DataError: if the prepared data are missing or damaged, or too few for the clients.
        FileError: if the generators are missing or damaged.
    """
    start, study, device = time.perf_counter(), job.plan.study, job.processor()
    settings, folder = variant_of(job), run_of(job)
    set_up(device, study.threads)
    data = load(job.plan.layout.data).to(device)
    _check_beta(job, len(data.classes))
    fault = _pseudo_fault(job)
    mixes = fault is None and settings.mixing is not None
    pseudo = read_pseudo(job, data) if mixes else None
    federation = Federation(study, settings, data, pseudo, job.of["seed"])
    # A round is long, its state is small.
    checkpoint = Checkpoint(checkpoint_place(job), interval=0.0)
    resumed = Resumed(federation, checkpoint, start)
    folder.metrics.unlink(missing_ok=True)
    with checkpoint.written_when_interrupted():
        reason = fault or resumed.finish(job.title, study.train.rounds, SHOWN, folder.history)
        _write(job, federation, reason, resumed.seconds)
    checkpoint.remove()
    return [folder.metrics]


def _check_beta(job: FederatedJob, classes: int) -> None:
    """Refuse a mask of more outputs than the network has, which the data decide."""
    mask = variant_of(job).mask
    if mask is not None and mask.beta is not None and mask.beta > classes:
        raise ConfigError(
            f"variants.{job.of['variant']}.mask.beta: {mask.beta} outputs, the data have {classes}"
            " classes; lower it, or leave it out for all"
        )


def read_pseudo(job: FederatedJob, data: Prepared) -> Pseudo:
    """Read the clients' generators of the job's seed, compared with their record.

    Raises:
        FileError: if they are missing or damaged.
    """
    file = checked(job.plan.layout.pseudo(job.of["seed"]).generators)
    device = job.processor()
    weights = {name: tensor.to(device) for name, tensor in load_tensors(file).items()}
    net = make_generator(data.image_shape, len(data.classes), job.plan.study.gan)
    return Pseudo(net.to(device), weights)


def _pseudo_fault(job: FederatedJob) -> str | None:
    """Return why there are no generators to train with, where they diverged."""
    if variant_of(job).mixing is None:
        return None
    record = read_sealed(job.plan.layout.pseudo(job.of["seed"]).metrics, ("status", "reason"))
    return None if record["status"] == "ok" else f"the clients' GANs failed: {record['reason']}"


def checkpoint_place(job: FederatedJob) -> Path:
    """Return the checkpoint's folder: also for these data, generators and device."""
    generators = generators_sha256(job)
    origin = [checksum(job.plan.layout.data), job.processor().type]
    return job.checkpoint(*origin, *([generators] if generators else []))


def generators_sha256(job: FederatedJob) -> str | None:
    """Return the checksum of the generators that a training reads, if it does, by their record."""
    if "generators" not in job.inputs:
        return None
    folder = job.plan.layout.pseudo(job.of["seed"])
    return str(read_sealed(folder.metrics, ("files",))["files"][folder.generators.name])


def _write(job: FederatedJob, federation: Federation, reason: str | None, seconds: float) -> None:
    """Write the run's files, its metrics last."""
    folder = run_of(job)
    write_jsonl(folder.history, federation.history)
    write_json(folder.config, job.settings | {"seed": job.of["seed"]})
    save_tensors(folder.model, federation.weights)
    found = {
        **(_scores(federation) if reason is None else dict.fromkeys(SCORES)),
        **_totals(federation),
        "epochs": len(federation.history),
        "parameters": {"network": sum(w.numel() for w in federation.weights.values())},
        "generators_sha256": generators_sha256(job),
        "wall_seconds": seconds,
    }
    write_record(job, "run", reason, found, folder.files())


def _scores(federation: Federation) -> dict[str, float | None]:
    found: dict[str, float | None] = {}
    found |= score(federation.net, federation.weights, federation.data.test, "")
    found |= score(federation.net, federation.weights, federation.data.val, "val_")
    return found | {"epsilon": _epsilon(federation)}


def _epsilon(federation: Federation) -> float | None:
    """Return what the training cost the client with the fewest images, had it always been asked.

    As if every step drew its images independently; ours, like most, cuts a shuffled order into
    batches instead. None under mixing: the GANs saw every image without noise, and their images
    are in every step, so that the noise of the steps promises nothing.
    """
    private, train = federation.variant.dp_sgd, federation.study.train
    if private is None or federation.variant.mixing is not None:
        return None
    rate = train.batch_size / int(federation.clients.samples.min())
    return epsilon(private, min(1.0, rate), train.rounds * train.local_steps)


def _totals(federation: Federation) -> dict[str, float | None]:
    """Return sums over the rounds, and the mean time of one; None where there was none."""
    rows = federation.history
    counted = ("asked", "dropped", "excluded", "bytes_up", "bytes_down")
    found: dict[str, float | None] = {name: sum(row[name] for row in rows) for name in counted}
    found["round_seconds"] = sum(row["seconds"] for row in rows) / len(rows) if rows else None
    return found
