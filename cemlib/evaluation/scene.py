"""What an attacker finds: the deployed classifier, the images it owns, and what was released."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor, nn

from cemlib.attacks import ATTACKS
from cemlib.attacks.start import load_decoder
from cemlib.attacks.task import Outcome, Pairs, Task
from cemlib.config.study import Study
from cemlib.data.errors import DataError
from cemlib.data.prepared import Prepared, Split
from cemlib.defences.deployed import Deployed
from cemlib.evaluation.scores import recognised
from cemlib.numerics.divergence import DivergedError
from cemlib.numerics.seeds import derive, generator
from cemlib.records.checkpoint import Checkpoint

PUBLIC = 0.9  # share of the test images that the public_data attacker owns
HELD_OUT = 0.1  # share of those that it holds out of its training
FEWEST = 2  # images that a decoder can be trained on
RECOGNITION = ("recon_top1", "recon_top1_victim", "judge_top1")


def first_target(knowledge: str, test_images: int) -> int:
    """Return the index of the first test image that is attacked, of all or of the last tenth."""
    return 0 if knowledge == "train_data" else int(PUBLIC * test_images)


def targets(data: Prepared, knowledge: str) -> Split:
    """Return the images that are attacked, with their labels."""
    first = first_target(knowledge, len(data.test))
    return Split(data.test.images[first:], data.test.labels[first:])


def start_failed(attack: str, reason: str | None) -> str:
    """Say why an attack fails that begins with the decoder of a failed one."""
    return f"the attack it starts from failed: {attack}: {reason}"


@dataclass(frozen=True)
class Scene:
    """Everything that attacks on one deployed classifier work with, in memory.

    Attributes:
        study: Whose attacks are carried out.
        defence: Name of the attacked defence.
        seed: Of the attacked run.
        data: All images, on the device of the classifiers.
        victim: The attacked classifier.
        judge: The undefended classifier that recognises reconstructions.
    """

    study: Study
    defence: str
    seed: int
    data: Prepared
    victim: Deployed
    judge: Deployed

    @cached_property
    def pairs(self) -> dict[str, Pairs]:
        """Return images and clean features of every split, computed once for all attacks."""
        splits = self.data.parts().items()
        return {
            name: Pairs(s.images, self.victim.features(s.images), s.labels) for name, s in splits
        }

    def owned(self, knowledge: str) -> tuple[Pairs, Pairs]:
        """Return what the attacker trains on, and what it holds out to see how well it does.

        With `train_data` these are the victim's training and validation images; with
        `public_data` nine and one tenth of the first 90 % of the test images.

        Raises:
            DataError: there are too few test images to train on.
        """
        if knowledge == "train_data":
            return self.pairs["train"], self.pairs["val"]
        test = self.pairs["test"]
        end = first_target(knowledge, len(test.images))
        cut = int((1 - HELD_OUT) * end)
        if cut < FEWEST:
            raise DataError(
                f"{len(test.images)} test images leave the public_data attacker {cut} to train on,"
                f" {FEWEST} are needed; raise data.test_limit or data.test_fraction, or add images"
            )
        return test.part(slice(cut)), test.part(slice(cut, end))

    def attempt(
        self, attack: str, knowledge: str, checkpoint: Checkpoint, start: nn.Module | None = None
    ) -> Outcome | str:
        """Carry out one attack; returns what it found, or why it failed.

        Args:
            attack: Its name in the study.
            knowledge: One of `cemlib.records.layout.KNOWLEDGES`.
            checkpoint: Where a learned attack keeps its state.
            start: The trained decoder that it begins with, where its section names one.

        Raises:
            DataError: as `owned` does.
        """
        task = self.task(attack, knowledge, checkpoint, start)
        try:
            return ATTACKS[self.study.attacks[attack].kind](task)
        except DivergedError as error:
            return str(error)

    def decoder(self, attack: str, state: Mapping[str, Tensor]) -> nn.Module:
        """Return the trained decoder that an attack left, from the state of its outcome.

        Raises:
            RuntimeError: the tensors are not those of such a decoder.
        """
        options, images = self.study.attacks[attack].model_dump(), self.data.train.images
        shape = self.victim.model.feature_shape
        model = load_decoder(state, options, shape, self.data.image_shape)
        return model.to(images.device).to(memory_format=torch.channels_last)

    def recognition(self, answers: Tensor, knowledge: str) -> dict[str, Tensor]:
        """Tell whether each reconstruction, and each original by the judge, is put in its class."""
        judge, split = self.judge, targets(self.data, knowledge)
        noise = generator(self.seed, f"recognition/{knowledge}")
        found = (
            recognised(judge, answers, split.labels, noise),
            recognised(self.victim, answers, split.labels, noise),
            recognised(judge, split.images, split.labels, noise),
        )
        return dict(zip(RECOGNITION, found, strict=True))

    def task(
        self, attack: str, knowledge: str, checkpoint: Checkpoint, start: nn.Module | None = None
    ) -> Task:
        """Return an attack's task; the release of the targets is the same for all of a seed."""
        options = self.study.attacks[attack].model_dump()
        own, held_out = self.owned(knowledge)
        if options.get("flip") and self.study.train.augment.flip:
            own = own.beside(self._mirrored(own))
        return Task(
            victim=self.victim,
            own=own,
            held_out=held_out,
            released=self._released(knowledge, options.get("queries", 1)),
            options=options,
            seed=derive(self.seed, f"attack/{attack}/{knowledge}"),
            title=f"{attack} {knowledge} on {self.defence} seed{self.seed}",
            checkpoint=checkpoint,
            judge=self.judge.model,
            start=start,
        )

    def _mirrored(self, own: Pairs) -> Pairs:
        """Return the pairs of the mirror images."""
        images = own.images.flip(3)
        return Pairs(images, self.victim.features(images), own.labels)

    def _released(self, knowledge: str, queries: int) -> Tensor:
        test = self.pairs["test"].features
        released = test[first_target(knowledge, len(test)) :]
        noise = generator(self.seed, f"target/{knowledge}")
        return self.victim.channel(released, noise, queries=queries)
