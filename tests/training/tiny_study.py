"""A study small enough to train in a second: three classes of blurred blobs, 16x16, grey."""

import json
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional as F

from cemlib.config import parse
from cemlib.config.study import JUDGE, JUDGE_SEED, Study, TrainConfig
from cemlib.data.prepared import Prepared, Split, save
from cemlib.defences.channels import CHANNELS
from cemlib.defences.channels.noise import GaussianNoise
from cemlib.defences.deployed import Deployed
from cemlib.models import build
from cemlib.records.files import load_tensors
from cemlib.records.layout import RunFolder
from cemlib.study.plan import Plan
from cemlib.study.split import train_job
from cemlib.surrogates import SURROGATES
from cemlib.surrogates import build as build_surrogate
from cemlib.training.job import new_trainer, run
from cemlib.training.step import Defended
from cemlib.training.trainer import Trainer

CPU = torch.device("cpu")
LAMBDA = 16.0
ARL = {"name": "arl", "threshold": -1.0, "blocks": 1, "width": 8}
RAW: dict[str, Any] = {
    "experiment": "tiny",
    "seeds": [0, 1],
    "data": {"source": "digits", "image_size": 16},
    "model": {"name": "small", "cut": 4},
    "train": {"epochs": 3, "batch_size": 32, "milestones": [2]},
    "defences": {
        "none": {"noise_std": 0.0},
        "noise": {},
        "nopeek": {"penalty": "nopeek"},
        "bido": {"penalty": "bido"},
        "fisher": {"penalty": "fisher"},
        "arl": {"penalty": ARL},
        "stripped": {"pruning": {"epoch": 7, "ratio": 0.9}},
        "undressed": {"pruning": {"epoch": 1, "ratio": 0.5}},
        "everything": {
            "surrogate": "logdet",
            "channel": "dropout",
            "penalty": ARL,
            "pruning": {"epoch": 2},
            "sparse_coding": True,
        },
        "unscaled": {"surrogate": {"name": "clustering", "lr_scaling": False}},
        "often": {"surrogate": {"name": "logdet", "refresh": 2}},
        "full": {"surrogate": {"name": "gmm", "covariance": "full"}},
        "private": {"noise_std": 0.0, "channel": {"name": "local_dp"}, "surrogate": "logdet"},
        **{f"by_{name}": {"channel": {"name": name}} for name in CHANNELS},
        **{name: {"surrogate": name} for name in SURROGATES},
        **{f"{name}_off": {"surrogate": {"name": name, "lambda": 0}} for name in SURROGATES},
    },
    "attacks": {
        "decoder": {"epochs": 20, "lr": 0.01, "batch_size": 32, "blocks": 1, "width": 16},
        "linear": {},
        "mean_image": {},
    },
}


def blobs(count: int, seed: int) -> Split:
    """Images around one smooth pattern per class; easy to tell apart."""
    patterns = torch.rand(3, 1, 4, 4, generator=torch.Generator().manual_seed(0))
    patterns = F.interpolate(patterns, size=(16, 16), mode="bilinear")
    draws = torch.Generator().manual_seed(seed)
    labels = torch.randint(3, (count,), generator=draws)
    noisy = patterns[labels] + 0.1 * torch.randn(count, 1, 16, 16, generator=draws)
    return Split(noisy.clamp(0, 1).mul(255).round().to(torch.uint8), labels)


def blob_data(train: int = 97) -> Prepared:
    """97 training images: the last batch of 32 holds a single one."""
    return Prepared(
        train=blobs(train, 1),
        val=blobs(24, 2),
        test=blobs(60, 3),
        mean=(0.5,),
        std=(0.25,),
        classes=("a", "b", "c"),
    )


def tiny_plan(results: Path, **train: Any) -> Plan[Study]:
    """A plan whose data is prepared already; `train` overrides options of the training."""
    settings = RAW["train"] | train
    fitting = {  # a study refuses to prune after its last epoch
        name: defence
        for name, defence in RAW["defences"].items()
        if defence.get("pruning", {"epoch": 0})["epoch"] < settings["epochs"]
    }
    raw = RAW | {"results": str(results), "train": settings, "defences": fitting}
    plan = Plan(parse(json.loads(json.dumps(raw))), device="cpu")
    if not plan.layout.prepared.is_file():
        save(blob_data(), plan.layout.data)
    return plan


def tiny_trainer(
    results: Path, defence: str, data: Prepared | None = None, **train: Any
) -> Trainer:
    """Return the trainer of a defence at its start, as its job builds it."""
    data = blob_data() if data is None else data
    return new_trainer(tiny_plan(results, **train).study, defence, 0, data)


def bare_trainer(
    surrogate: str | None = None, noise_std: float = 0.025, **settings: Any
) -> Trainer:
    """Return a trainer without a study, on all of 96 training images at once unless told else."""
    data = blob_data(train=96)
    torch.manual_seed(0)
    model = build("small", num_classes=3, image_size=16, cut=4, mean=data.mean, std=data.std)
    sizes = {"dim": 128, "num_classes": 3, "noise_std": noise_std}
    weighted = {"lambda": LAMBDA} | sizes
    penalty = build_surrogate(surrogate, **weighted) if surrogate else None
    defended = Defended(Deployed(model, GaussianNoise(noise_std)), penalty)
    return Trainer(TrainConfig(**({"batch_size": 96} | settings)), defended, data, seed=0)


def trained(results: Path, defence: str, seed: int = 0, **train: Any) -> RunFolder:
    """Run the training job of a defence and return its folder."""
    job = train_job(tiny_plan(results, **train), defence, seed)
    run(job)
    return RunFolder(job.folder)


def judged(results: Path, **train: Any) -> Plan[Study]:
    """The plan, with the judge that attacks need trained."""
    plan = tiny_plan(results, **train)
    run(train_job(plan, JUDGE, JUDGE_SEED))
    return plan


def same_weights(one: RunFolder, other: RunFolder) -> bool:
    """Whether two runs ended with the same bits."""
    a, b = load_tensors(one.model), load_tensors(other.model)
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)
