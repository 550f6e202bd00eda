"""Time an attacker's step, SSIM, reading images, and the start of processes."""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from PIL import Image
from torch import nn
from torch.nn import functional as F
from torchmetrics.functional.image import structural_similarity_index_measure
from torchvision.datasets import ImageFolder
from torchvision.transforms import ToTensor

from benchmarks.measure import Call, Row, best_precision, compare, flops, measured, row
from benchmarks.plain import AS_BY_DEFAULT, Pictures, loader
from benchmarks.setting import CLASSES, NOISE_STD, Scale, images, prepared, split_model, study
from cemlib.attacks.budget import untrained
from cemlib.attacks.learning import Regression
from cemlib.attacks.task import Pairs, Task
from cemlib.config.data import DataConfig
from cemlib.data.prepare import prepare
from cemlib.data.prepared import Split, save, to_float
from cemlib.defences.channels.noise import GaussianNoise
from cemlib.defences.deployed import Deployed
from cemlib.metrics import ssim
from cemlib.numerics.precision import set_up
from cemlib.records.checkpoint import Checkpoint
from cemlib.records.files import write_text
from cemlib.study.job import prepare_job
from cemlib.study.plan import Plan

DECODERS = ("decoder", "residual")
COMMANDS = {
    "cemlib --help": ["cemlib", "--help"],
    "snakemake -n, CIFAR-10": ["snakemake", "-n", "--configfile", "config/cifar10.yaml"],
}


def decoders(scale: Scale) -> Iterator[Row]:
    """Time a step of both decoders beside a loop that sends its images through the encoder."""
    set_up(torch.device(scale.device), scale.threads)
    owned = images(scale.steps * scale.attack_batch, scale)
    for kind in DECODERS:
        ours = _attack(kind, owned, scale)
        yield compare(
            f"step, {kind}",
            partial(ours.pass_over, 1),
            scale,
            reference=_plain_attack(kind, owned, scale),
            operations=decoder_flops(kind, scale),
            precision=best_precision(scale),
            images=scale.attack_batch,
            count=scale.steps,
        )


def metrics(scale: Scale) -> Iterator[Row]:
    """Time the SSIM of many images beside torchmetrics with the same window."""
    x, y = (to_float(images(scale.images, scale, seed).images.to(scale.device)) for seed in (0, 1))
    yield compare(
        "ssim",
        lambda: ssim(x, y, padding="valid"),
        scale,
        reference=lambda: structural_similarity_index_measure(
            x, y, reduction="none", data_range=1.0
        ),
        operations=flops(lambda: ssim(x, y, padding="valid")),
        images=scale.images,
    )


def reading(scale: Scale) -> Iterator[Row]:
    """Time `prepare` on PNG files beside torchvision's ImageFolder, which only reads them."""
    with TemporaryDirectory() as root:
        made = images(scale.images, scale)
        pixels = made.images.permute(0, 2, 3, 1).numpy()
        for index, label in enumerate(made.labels.tolist()):
            folder = Path(root, f"class{label}")
            folder.mkdir(exist_ok=True)
            Image.fromarray(pixels[index]).save(folder / f"{index:06d}.png")
        config = DataConfig(source="folder", root=root, image_size=scale.image_size)
        yield compare(
            "image folder",
            lambda: prepare(config),
            scale,
            reference=lambda: list(ImageFolder(root, transform=ToTensor())),
            images=scale.images,
        )


def start(scale: Scale) -> Iterator[Row]:
    """Time processes, the last a training of two steps, beside one that imports torch alone."""
    with TemporaryDirectory() as root:
        there = {name: call for name, call in COMMANDS.items() if find_spec(call[0])}
        commands = there | {"cemlib train, two steps": _training_job(scale, root)}
        calls = [["-c", "import torch"], *(["-m", *command] for command in commands.values())]
        reference, *found = measured([partial(_run, call) for call in calls], scale)
    for name, time in zip(commands, found, strict=True):
        yield row(name, time, reference)


def decoder_flops(kind: str, scale: Scale) -> float:
    """Return the operations of a decoder's forward and backward pass on a batch."""
    decoder, features = new_decoder(kind, scale), torch.rand(1, *split_model(scale).feature_shape)
    return scale.attack_batch * flops(lambda: decoder(features).sum().backward())


def _attack(kind: str, owned: Split, scale: Scale) -> Regression:
    """Return the attack on an untrained classifier; the cost does not depend on the weights."""
    model = split_model(scale).to(scale.device).to(memory_format=torch.channels_last)
    victim, there = Deployed(model, GaussianNoise(NOISE_STD)), owned.to(scale.device)
    pairs = Pairs(there.images, victim.features(there.images), there.labels)
    task = Task(
        victim=victim,
        own=pairs,
        held_out=pairs.part(slice(1)),
        released=pairs.features[:1],
        options=study(scale).attacks[kind].model_dump(),
        seed=0,
        title="benchmarks",
        checkpoint=Checkpoint(Path("never-written")),
        judge=model,
    )
    return Regression(task)


def _plain_attack(kind: str, owned: Split, scale: Scale) -> Call:
    """Return an epoch of the attacker's training as public code has it, in float32."""
    encoder = split_model(scale).encoder.to(scale.device).eval()
    decoder = new_decoder(kind, scale).to(scale.device)
    batches = loader(Pictures(owned), scale.attack_batch, scale.workers)
    optimiser = torch.optim.Adam(decoder.parameters(), lr=1e-3, weight_decay=1e-4)

    @AS_BY_DEFAULT
    def epoch() -> None:
        for pictures, _ in batches:
            targets = pictures.to(scale.device)
            with torch.no_grad():
                features = encoder(targets)
            answers = decoder(features + NOISE_STD * torch.randn_like(features))
            loss = F.mse_loss(answers, targets)
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            loss.item()

    return epoch


def new_decoder(kind: str, scale: Scale) -> nn.Module:
    """Return the untrained decoder of an attack."""
    options = study(scale).attacks[kind].model_dump()
    return untrained(options, split_model(scale).feature_shape, scale.image_shape)


def _training_job(scale: Scale, root: str) -> list[str]:
    """Prepare images for one short epoch; return the job that trains it."""
    plan = Plan(study(scale, results=root, train={"epochs": 1, "batch_size": 2}))
    origin = {"preparation": prepare_job(plan).made_by()}  # without it the training refuses them
    save(replace(prepared(4, 2 * CLASSES, scale), provenance=origin), plan.layout.data)
    config = Path(root, "study.json")
    write_text(config, plan.study.model_dump_json(by_alias=True))
    chosen = ["--defence", "noise", "--seed", "0", "--device", scale.device]
    return ["cemlib", "train", "--config", str(config), *chosen]


def _run(arguments: list[str]) -> None:
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
