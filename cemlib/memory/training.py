"""A training, rehearsed: two steps, the end of an epoch, and the scores of the finished run."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from cemlib.config import Study
from cemlib.data.augment import Augment
from cemlib.data.batches import Batches
from cemlib.data.prepared import Split
from cemlib.defences.deployed import Deployed
from cemlib.defences.penalties import build as build_penalty
from cemlib.defences.penalties.base import Penalty
from cemlib.memory.facts import Facts
from cemlib.memory.heap import Heap
from cemlib.memory.parts import (
    FORM,
    Stage,
    features,
    forget_gradients,
    leakage,
    logits,
    momenta,
    noise,
    repeated,
    written,
)
from cemlib.memory.recorder import META, Recorder, empty
from cemlib.surrogates import Surrogate
from cemlib.surrogates import build as build_surrogate

STEPS = 2  # the second has the momenta that the first made
FIT_BLOCKS = {"clustering": (2, 4), "gmm": (8, 8)}  # blocks at a time, bytes of a value
FIT_BLOCK = 2**22  # values of a block, where a class has no more


def training(study: Study, facts: Facts, defence: str) -> Heap:
    """The heap of the training of one defence, or of the judge."""
    recorder = Recorder()
    with recorder:
        _Training(Stage(study, facts, defence), recorder).run()
    return recorder.heap


class _Training:
    def __init__(self, stage: Stage, recorder: Recorder) -> None:
        self.recorder = recorder
        self.stage, self.settings = stage, stage.study.training(stage.defence)
        self.splits = stage.splits()
        self.deployed = stage.deployed()
        self.surrogate = _surrogate(stage, self.deployed)
        self.penalty = _penalty(stage, self.deployed)
        augment = Augment(self.settings.augment)
        self.batches = Batches(self.splits["train"], self.settings.batch_size, augment)
        self.trained = (self.deployed.model, self.surrogate)
        self.kept: list[Tensor] = []

    def run(self) -> None:
        for _ in range(STEPS):
            self.step()
            self.recorder.forget_graph()
        if self.surrogate is not None and self.surrogate.fits:
            self.fit()
        self.score(self.splits["val"])
        best = self.copied() if self.settings.select != "last" else []
        self.step()
        self.recorder.forget_graph()
        self.score(self.splits["test"])
        self.checkpoint()
        written(self.deployed.model)
        del best

    def step(self) -> None:
        """As `cemlib.training.step` does it; the surrogate's and the penalty's arithmetic too."""
        _, images, labels = self.batches.take(self.batches.sizes[0])
        images = images.contiguous(memory_format=FORM)
        clean = self.deployed.model.encoder(images)
        shaped = self.deployed.channel.shape(clean.flatten(1))
        spread, apart = penalised(self.surrogate, shaped, labels)
        released = self.deployed.channel(clean, noise())
        loss = F.cross_entropy(self.deployed.model.head(released), labels) + spread
        if self.penalty is not None:
            loss = loss + self.penalty.penalty(images, clean, released)
        forget_gradients(*self.trained)
        loss.backward()  # type: ignore[no-untyped-call]
        if apart is not None:
            apart.backward()  # type: ignore[no-untyped-call]
        # Adam of a penalty keeps two tensors for a weight, SGD one; the first step makes them.
        self.kept = self.kept or [
            *momenta(*self.trained, slots=1),
            *momenta(self.penalty, slots=2),
        ]
        forget_gradients(self.penalty)

    def fit(self) -> None:
        """Features of all training images, and what the fit itself takes (see its module)."""
        with torch.no_grad():
            together = torch.cat(repeated(self.encoded, self.batches.sizes))
        assert self.surrogate is not None
        defence = self.stage.study.defence(self.stage.defence)
        largest = math.ceil(len(together) / self.stage.classes) * together.shape[1]
        values = min(max(largest, FIT_BLOCK), together.numel())
        count, size = FIT_BLOCKS[defence.surrogate.name if defence.surrogate else ""]
        blocks = [empty(values * size, dtype=torch.uint8) for _ in range(count)]
        del blocks

    def encoded(self, size: int) -> Tensor:
        """Features (size, D) of the next batch."""
        _, images, _ = self.batches.take(size)
        clean: Tensor = self.deployed.model.encoder(images.contiguous(memory_format=FORM))
        return clean.flatten(1)

    def score(self, split: Split) -> None:
        """Features of a split, their logits and the bound on their leakage."""
        clean = features(self.deployed, split.images)
        logits(self.deployed, clean)
        leakage(clean, self.stage.classes)
        self.deployed.model.train()

    def copied(self) -> list[Tensor]:
        return [tensor.clone() for tensor in self.deployed.model.state_dict().values()]

    def checkpoint(self) -> None:
        """Copies of weights and momenta, kept from epoch to epoch, and their bytes when written."""
        held: Sequence[Tensor] = [*self.copied(), *(tensor.clone() for tensor in self.kept)]
        size = sum(tensor.numel() * tensor.element_size() for tensor in held)
        empty(size, dtype=torch.uint8)


def penalised(
    surrogate: Surrogate | None, clean: Tensor, labels: Tensor
) -> tuple[Tensor, Tensor | None]:
    """The penalty of features (B, D), or 0; and one with a graph apart, which is computed."""
    nothing = clean.new_zeros(())
    if surrogate is None:
        return nothing, None
    if _may_draw(surrogate):
        return nothing, _on_cpu(surrogate, clean, labels)
    return surrogate.penalty(clean, labels)[0], None


def _may_draw(surrogate: Surrogate) -> bool:
    """Whether it has generators, which the meta device has not; they come with the first draw."""
    return type(surrogate).generators is not Surrogate.generators


def _on_cpu(surrogate: Surrogate, clean: Tensor, labels: Tensor) -> Tensor:
    """The same with data: its graph is there while the network's is, as in a training."""
    real = surrogate.to_empty(device="cpu")
    for tensor in (*real.parameters(), *real.buffers()):
        tensor.data.zero_()
    z = torch.zeros(clean.shape, requires_grad=True)
    return real.penalty(z, torch.zeros(labels.shape, dtype=torch.long))[0]


def _surrogate(stage: Stage, deployed: Deployed) -> Surrogate | None:
    settings = stage.study.defence(stage.defence).surrogate
    if settings is None:
        return None
    dim = math.prod(deployed.model.feature_shape)
    with META:
        return build_surrogate(
            settings.name,
            dim=dim,
            num_classes=stage.classes,
            noise_std=deployed.channel.std,
            **settings.options(),
        )


def _penalty(stage: Stage, deployed: Deployed) -> Penalty | None:
    settings = stage.study.defence(stage.defence).penalty
    if settings is None:
        return None
    shapes = {
        "image_shape": stage.facts.image_shape,
        "feature_shape": deployed.model.feature_shape,
    }
    with META:
        return build_penalty(settings.name, **shapes, **settings.options())
