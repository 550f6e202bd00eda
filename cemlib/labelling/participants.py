"""Distribute images among the participants of one repeat, train their networks, and let them vote.

The queries and each participant's own images are disjoint sets; the smaller sets of a participant
are subsets of its larger ones. A participant starts from the same weights, and its batches are
drawn with the same random numbers, whatever it trains on.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from cemlib.config.errors import ConfigError
from cemlib.config.labelling import LabellingStudy, NetworkConfig
from cemlib.data.prepared import Prepared, to_float
from cemlib.labelling.accounting import noise_std
from cemlib.labelling.learning import TrainingSet, classify, learn, start
from cemlib.labelling.loss import answered, certainty, posterior
from cemlib.models.layers import Normalise
from cemlib.numerics.seeds import generator
from cemlib.records.progress import progress

Weighting = Literal["capc", "iel", "constant"]
Found: TypeAlias = dict[str, Tensor]
METHODS: tuple[Weighting, ...] = ("capc", "iel", "constant")
TENTHS = 10  # parts of the training whose mean losses are kept


@dataclass(frozen=True)
class Participants:
    """All participants of one repeat."""

    study: LabellingStudy
    repeat: int
    data: Prepared

    def __post_init__(self) -> None:
        needed = self.study.queries + self.study.participants * max(self.study.images)
        found = len(self.data.train)
        if needed > found:
            raise ConfigError(
                f"images: {self.study.participants} participants with {max(self.study.images)}"
                f" images and {self.study.queries} queries need {needed} training images, the data"
                f" have {found}; lower images, queries, data.val_fraction or (for images without an"
                " official test split) data.test_fraction, or raise data.train_limit if it is set"
            )

    @cached_property
    def queries(self) -> Tensor:
        """Return the positions (Q,) of the queried images."""
        return self._dealt[: self.study.queries]

    def own(self, participant: int, images: int) -> TrainingSet:
        """Return a participant's labelled images, each of weight 1."""
        begin = self.study.queries + participant * max(self.study.images)
        positions = self._dealt[begin : begin + images]
        return TrainingSet(positions, self.data.train.labels[positions], torch.ones(images))

    def certainty(self, counts: Tensor, epsilon: float | None) -> Tensor:
        """Return the weight (Q,) of each answer, by entropy or posterior as the study sets it."""
        if self.study.certainty == "entropy":
            return certainty(counts)
        return posterior(counts, self.study.participants, noise_std(self.study, epsilon))

    def answered(self, counts: Tensor, epsilon: float | None, weighting: Weighting) -> TrainingSet:
        """Return the answered images with the labels and weights of their noisy counts (Q, k).

        `constant` shows the effect of the size of the weights alone.
        """
        kept = answered(counts)
        certain = self.certainty(counts[kept], epsilon).float()
        weights = {
            "capc": torch.ones_like(certain),
            "iel": certain,
            "constant": certain.mean().expand_as(certain),
        }
        return TrainingSet(self.queries[kept], counts[kept].argmax(dim=1), weights[weighting])

    def learn(self, sets: Sequence[tuple[int, TrainingSet]]) -> Found:
        """Train a participant from its initial weights on each of M training sets.

        Return `votes` (M, Q) on the queries, `accuracy` (M,) on the test images, and `losses`
        (M, tenths), the mean in each tenth of the training.
        """
        groups: dict[tuple[NetworkConfig, int | None], list[int]] = {}
        for i, (who, _) in enumerate(sets):
            network = self.network(who)
            groups.setdefault((network, None if network.small else i), []).append(i)
        parts = list[Found]()
        report = progress(f"pctc repeat {self.repeat}", len(groups), unit="training")
        for done, at in enumerate(groups.values(), 1):
            parts.append(self._learn([sets[i] for i in at]))
            report(done, {"top1": float(parts[-1]["accuracy"].mean())})
        order = torch.tensor([i for at in groups.values() for i in at]).argsort()
        return {name: torch.cat([part[name] for part in parts])[order] for name in parts[0]}

    def network(self, participant: int) -> NetworkConfig:
        """Return the network of a participant."""
        return self.study.networks[participant % len(self.study.networks)]

    def _learn(self, sets: Sequence[tuple[int, TrainingSet]]) -> Found:
        """Train participants with the same network, all at once; only one if it is not small."""
        train, test = self._images
        shape, classes, settings = self.data.image_shape, len(self.data.classes), self.study.train
        size = (settings.steps, settings.batch_size)
        everybody, parts = zip(*sets, strict=True)
        streams = [self._stream("weights", who) for who in everybody]
        networks = start(self.network(everybody[0]), shape, classes, streams)
        drawn = [torch.rand(size, generator=self._stream("batches", who)) for who in everybody]
        losses = learn(networks, train, parts, torch.stack(drawn, 1), settings)
        right = classify(networks, test) == self.data.test.labels
        tenths = torch.stack([part.mean(0) for part in losses.tensor_split(TENTHS)])
        votes = classify(networks, train[self.queries])
        return {"votes": votes, "accuracy": right.double().mean(1), "losses": tenths.T}

    @cached_property
    def _dealt(self) -> Tensor:
        return torch.randperm(len(self.data.train), generator=self._stream("sets"))

    @cached_property
    def _images(self) -> tuple[Tensor, Tensor]:
        """Return the normalised training images and test images."""
        normalise = Normalise(self.data.mean, self.data.std)
        train, test = self.data.train.images, self.data.test.images
        return normalise(to_float(train)), normalise(to_float(test))

    def _stream(self, name: str, participant: int = 0) -> torch.Generator:
        return generator(self.repeat, f"labelling/{name}", participant)
