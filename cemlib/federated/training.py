"""The job that trains one variant with one seed: rounds, checkpoints, the record."""

import time
from typing import Any

from cemlib.checkpoint import Checkpoint, State, copied, pack, unpack
from cemlib.config.errors import ConfigError
from cemlib.config.federated import Variant
from cemlib.data.prepared import Prepared, checksum, load
from cemlib.device import set_up
from cemlib.errors import DivergedError
from cemlib.federated.adversaries import make_generator
from cemlib.federated.inversion.peers import epsilon
from cemlib.federated.network import WEIGHT
from cemlib.federated.plan import FederatedPlan
from cemlib.federated.record import FederatedJob
from cemlib.federated.rounds import Federation, Pseudo, score
from cemlib.files import load_tensors, save_tensors, write_json, write_jsonl
from cemlib.progress import progress
from cemlib.seal import checked, read_sealed, write_sealed

SHOWN = ("train_loss", "val_top1")
SCORES = ("top1", "loss", "val_top1", "val_loss", "epsilon")


def run(job: FederatedJob) -> dict[str, Any]:
    """Train; write the run's folder and return its metrics.

    A run that diverges is finished too: its status is `failed`, its scores are null.

    Raises:
        ConfigError: if a mask is of more outputs than there are classes.
        DataError: if the prepared data are missing or damaged, or too few for the clients.
        FileError: if the generators are missing or damaged.
    """
    start = time.perf_counter()
    set_up(job.device, job.plan.study.threads)
    data = load(job.plan.layout.data).to(job.device)
    variant, pseudo = variant_of(job), None
    _check_beta(job, len(data.classes))
    fault = _pseudo_fault(job, variant)
    if fault is None and variant.mixing is not None:
        pseudo = read_pseudo(job, data)
    federation = Federation(job.plan.study, variant, data, pseudo, job.seed)
    checkpoint = Checkpoint(_place(job), interval=0.0)  # a round is long, its state is small
    spent = _resume(federation, checkpoint)
    job.plan.run(str(job.variant), job.seed).metrics.unlink(missing_ok=True)
    with checkpoint.written_when_interrupted():
        reason = fault or _train(job, federation, checkpoint, start - spent)
        seconds = time.perf_counter() - start + spent
        metrics = _write(job, federation, reason, seconds)
    checkpoint.remove()
    return metrics


def variant_of(job: FederatedJob) -> Variant:
    """Settings of the job's variant."""
    if job.variant is None:
        raise ConfigError(f"--only {job.name}: no variant")
    return job.plan.study.variants[job.variant]


def _check_beta(job: FederatedJob, classes: int) -> None:
    """Refuse a mask of more outputs than the network has, which the data decide."""
    mask = variant_of(job).mask
    if mask is not None and mask.beta is not None and mask.beta > classes:
        raise ConfigError(
            f"variants.{job.variant}.mask.beta: {mask.beta} outputs, the data have {classes}"
            " classes; lower it, or leave it out for all"
        )


def read_pseudo(job: FederatedJob, data: Prepared) -> Pseudo:
    """The clients' generators of the job's seed, compared with their record.

    Raises:
        FileError: if they are missing or damaged.
    """
    file = checked(job.plan.pseudo(job.seed).generators)
    weights = {name: tensor.to(job.device) for name, tensor in load_tensors(file).items()}
    net = make_generator(data.image_shape, len(data.classes), job.plan.study.gan)
    return Pseudo(net.to(job.device), weights)


def _pseudo_fault(job: FederatedJob, variant: Variant) -> str | None:
    """Why there are no generators to train with, where they diverged."""
    if variant.mixing is None:
        return None
    record = read_sealed(job.plan.pseudo(job.seed).metrics, ("status", "reason"))
    return None if record["status"] == "ok" else f"the clients' GANs failed: {record['reason']}"


def _place(job: FederatedJob) -> Any:
    """The checkpoint's folder: for these settings, code, data, generators and device."""
    plan, variant = job.plan, str(job.variant)
    origin = [checksum(plan.layout.data), job.device.type]
    if plan.needs_pseudo(variant):
        origin.append(generators_sha256(plan, job.seed))
    return plan.train_checkpoint(variant, job.seed, "/".join(origin))


def generators_sha256(plan: FederatedPlan, seed: int) -> str:
    """Checksum of the generators, as their record has it."""
    folder = plan.pseudo(seed)
    return str(read_sealed(folder.metrics, ("files",))["files"][folder.generators.name])


def _train(
    job: FederatedJob, federation: Federation, checkpoint: Checkpoint, start: float
) -> str | None:
    """Run the rounds that are left; why it failed, or None."""
    history = job.plan.run(str(job.variant), job.seed).history
    rounds, done = federation.study.train.rounds, len(federation.history)
    with progress(job.title, rounds, done) as report:
        try:
            for row in federation.remaining():
                write_jsonl(history, federation.history)
                state = _state(federation, time.perf_counter() - start)
                checkpoint.keep(lambda state=state: state)  # type: ignore[misc]
                report(row["epoch"], {name: row[name] for name in SHOWN})
        except DivergedError as error:
            return str(error)
    return None


def _state(federation: Federation, spent: float) -> State:
    """What a killed job resumes from: what is drawn depends on the number of the round alone."""
    tensors = copied(pack("weights", federation.weights))
    return tensors, {"history": [*federation.history], "spent": spent}


def _resume(federation: Federation, checkpoint: Checkpoint) -> float:
    found = checkpoint.load()
    if found is None:
        return 0.0
    tensors, state = found
    device = federation.weights[WEIGHT].device
    federation.weights = {n: t.to(device) for n, t in unpack("weights", tensors).items()}
    federation.history = state["history"]
    return float(state["spent"])


def _write(
    job: FederatedJob, federation: Federation, reason: str | None, seconds: float
) -> dict[str, Any]:
    """Write the run's files, its metrics last."""
    plan, variant = job.plan, str(job.variant)
    folder, settings = plan.run(variant, job.seed), plan.study.train_slice(variant)
    write_jsonl(folder.history, federation.history)
    write_json(folder.config, settings | {"seed": job.seed})
    save_tensors(folder.model, federation.weights)
    metrics = {
        "kind": "run",
        **job.record(reason, settings, plan.train_sources()),
        **(_scores(federation) if reason is None else dict.fromkeys(SCORES)),
        **_totals(federation),
        "epochs": len(federation.history),
        "parameters": {"network": sum(w.numel() for w in federation.weights.values())},
        "data_sha256": checksum(plan.layout.data),
        "generators_sha256": generators_sha256(plan, job.seed)
        if plan.needs_pseudo(variant)
        else None,
        "wall_seconds": seconds,
    }
    others = [file for file in folder.files() if file != folder.metrics]
    write_sealed(folder.metrics, metrics, others)
    return metrics


def _scores(federation: Federation) -> dict[str, float | None]:
    found: dict[str, float | None] = {}
    found |= score(federation.net, federation.weights, federation.data.test, "")
    found |= score(federation.net, federation.weights, federation.data.val, "val_")
    return found | {"epsilon": _epsilon(federation)}


def _epsilon(federation: Federation) -> float | None:
    """What the training cost the client with the fewest images, had it been asked every round.

    As if every step drew its images independently; ours, like most, cuts a shuffled order into
    batches instead. None under mixing: the GANs saw every image without noise, and their images
    are in every step, so that the noise of the steps promises nothing.
    """
    private, train = federation.variant.dp_sgd, federation.study.train
    if private is None or federation.variant.mixing is not None:
        return None
    rate = train.batch_size / int(federation.clients.samples.min())
    steps = train.rounds * train.local_steps
    return epsilon(private, min(1.0, rate), steps)


def _totals(federation: Federation) -> dict[str, float | None]:
    """Sums over the rounds, and the mean time of one; None where there was none."""
    rows = federation.history
    counted = ("asked", "dropped", "excluded", "bytes_up", "bytes_down")
    found: dict[str, float | None] = {name: sum(row[name] for row in rows) for name in counted}
    found["round_seconds"] = sum(row["seconds"] for row in rows) / len(rows) if rows else None
    return found
