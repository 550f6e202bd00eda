"""What a run of a search is worth: accuracy and privacy on validation images.

The accuracy is that of the deployed classifier with its noise. The privacy is the MSE in [0, 1] of
closed-form ridge regression (`cemlib.attacks.linear`), trained on one release of the training
images and asked for the validation images: no tuning, seconds, and no test image.
"""

import time
from pathlib import Path
from tempfile import TemporaryDirectory

from cemlib.config.study import Study
from cemlib.data.pixels import to_float
from cemlib.data.prepared import load
from cemlib.defences.deployed import load_deployed
from cemlib.evaluation.scene import Scene
from cemlib.evaluation.stage import attacked_run
from cemlib.metrics import mse
from cemlib.numerics.precision import set_up
from cemlib.records.checkpoint import Checkpoint
from cemlib.records.files import sha256
from cemlib.records.provenance import source_files
from cemlib.records.seal import RECORD, read_sealed, write_sealed
from cemlib.study.job import Entry, Job
from cemlib.study.plan import Plan
from cemlib.study.split import train_job

KNOWLEDGE = "train_data"


def measure_job(plan: Plan[Study], defence: str, seed: int, device: str = "auto") -> Job[Study]:
    """Return the job that scores one run of a search's study."""
    trained = train_job(plan, defence, seed, device)
    ((name, attack),) = plan.study.attacks.items()
    return Job(
        plan,
        "validate/{defence}/seed{seed}",
        of=trained.of,
        reads=(trained,),
        inputs={"data": [plan.layout.prepared], "run": trained.records},
        leaves=[plan.layout.run("{defence}", "{seed}").root / "validation" / RECORD],
        settings=plan.study.attack_slice(defence, name),
        sources=source_files(
            "cemlib.search.validation",
            models=plan.study.model.name,
            channels=plan.study.defences[defence].channel.name,
            attacks=attack.kind,
        ),
        call=Entry("cemlib.search.validation"),
        device=device,
    )


def run(job: Job[Study]) -> list[Path]:
    """Score a finished run; write the record and return its path.

    Raises:
        FileError: if the run is damaged.
    """
    start, folder = time.perf_counter(), attacked_run(job)
    trained = read_sealed(folder.metrics, ("status", "reason", "val_top1", "wall_seconds"))
    ended = trained["status"] == "ok"
    found = {
        "kind": "validation",
        "val_top1": trained["val_top1"] if ended else None,
        "val_mse": _ridge_mse(job) if ended else None,
        "run_sha256": sha256(folder.metrics),
        **job.record(trained["reason"]),
    }
    seconds = trained["wall_seconds"] + time.perf_counter() - start
    (path,) = job.outputs
    write_sealed(path, found | {"wall_seconds": seconds})
    return [path]


def _ridge_mse(job: Job[Study]) -> float:
    """Return the mean over the validation images, which stand for a search's test images."""
    study, device = job.plan.study, job.processor()
    set_up(device, study.threads)
    data = load(job.plan.layout.data).to(device)
    victim = load_deployed(attacked_run(job), device)
    # A closed-form attack asks no judge; the victim stands for it.
    scene = Scene(study, job.of["defence"], job.of["seed"], data, victim, victim)
    (attack,) = study.attacks
    with TemporaryDirectory() as unused:
        found = scene.attempt(attack, KNOWLEDGE, Checkpoint(Path(unused)))
    if isinstance(found, str):  # ridge regression has no loss that diverges
        raise RuntimeError(found)
    return mse(found.reconstructions.float(), to_float(data.val.images)).mean().item()
