"""Read the inputs of a job of a federated study, and write its record."""

from typing import Any

from cemlib.config.federated import Variant
from cemlib.data.prepared import Prepared, load
from cemlib.federated.gan import Generator
from cemlib.federated.gan_training import Pseudo
from cemlib.numerics.precision import set_up
from cemlib.records.files import FileError, load_tensors
from cemlib.records.layout import RunFolder
from cemlib.records.seal import checked, read_sealed, write_sealed
from cemlib.study.federated import FederatedJob


def variant_of(job: FederatedJob) -> Variant:
    """Return the settings of a job's variant."""
    return job.plan.study.variants[job.of["variant"]]


def run_of(job: FederatedJob) -> RunFolder:
    """Return the folder of the training that a job carries out or attacks."""
    return job.plan.layout.run(job.of["variant"], job.of["seed"])


def read_data(job: FederatedJob) -> Prepared:
    """Set up device and threads, and load the images; raise FileError if they are damaged."""
    set_up(job.processor(), job.plan.study.threads)
    return load(job.plan.layout.data).to(job.processor())


def read_pseudo(job: FederatedJob, data: Prepared) -> Pseudo:
    """Read the clients' generators; raise FileError if they are damaged, or the GANs failed."""
    folder = job.plan.layout.gans(job.of["seed"])
    record = read_sealed(folder.metrics, ("status", "reason"))
    if record["status"] != "ok":
        raise FileError(f"{folder.root}: the clients' GANs failed: {record['reason']}")
    device, gan = job.processor(), job.plan.study.gan
    tensors = load_tensors(checked(folder.generators))
    weights = {name: tensor.to(device) for name, tensor in tensors.items()}
    net = Generator(data.image_shape, len(data.classes), gan.latent, gan.width)
    return Pseudo(net.to(device), weights)


def write_record(
    job: FederatedJob, kind: str, data: Prepared, reason: str | None, found: dict[str, Any]
) -> None:
    """Write the record of a job after its other outputs; `reason` says why it failed, if it did."""
    record = {
        "kind": kind,
        "defence": job.of.get("variant", "gans"),
        "seed": job.of["seed"],
        **found,
        "data_sha256": data.sha256,
        **job.record(reason),
    }
    (metrics,) = job.records
    write_sealed(metrics, record, [file for file in job.outputs if file != metrics])
