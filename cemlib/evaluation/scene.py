"""The scene of an attack: the deployed classifier, the attacker's images, and what is released."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from torch import Tensor, nn

from cemlib.attacks import ATTACKS
from cemlib.attacks.budget import load_decoder
from cemlib.attacks.known_class import with_class
from cemlib.attacks.task import Outcome, Pairs, Task
from cemlib.config.study import Study
from cemlib.data import DataError
from cemlib.data.prepared import Prepared, Split
from cemlib.defences.deployed import Deployed
from cemlib.numerics.divergence import DivergedError
from cemlib.numerics.seeds import derive, generator
from cemlib.records.checkpoint import Checkpoint
from cemlib.records.scores import RECOGNITION

PUBLIC = 0.9  # share of the test images that the public_data attacker owns
HELD_OUT = 0.1  # share of its images that it holds out of its training
FEWEST = 2  # least number of images to train a decoder on


def first_target(knowledge: str, test_images: int) -> int:
    """Return the index of the first attacked test image: all are attacked, or the last tenth."""
    return 0 if knowledge == "train_data" else int(PUBLIC * test_images)


def targets(data: Prepared, knowledge: str) -> Split:
    """Return the attacked images and their labels."""
    first = first_target(knowledge, len(data.test))
    return Split(data.test.images[first:], data.test.labels[first:])


def start_failed(attack: str, reason: str | None) -> str:
    """Return why an attack fails if the one whose decoder it begins with failed."""
    return f"the attack it starts from failed: {attack}: {reason}"


@dataclass(frozen=True)
class Scene:
    """Everything that attacks on one deployed classifier work with, in memory, on one device.

    The undefended `judge` recognises reconstructions; `defence` and `seed` name the attacked run.
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
        return {n: Pairs(s.images, self.victim.features(s.images), s.labels) for n, s in splits}

    def owned(self, knowledge: str) -> tuple[Pairs, Pairs]:
        """Return the attacker's training images, and those that it holds out.

        With `train_data` these are the victim's training and validation images; with `public_data`
        nine tenths and one tenth of the first 90 % of the test images.

        Raises:
            DataError: if there are too few images to train on.
        """
        if knowledge == "train_data":
            own = self.pairs["train"]
            if len(own.images) < FEWEST:
                raise DataError(
                    f"the train_data attacker has only {len(own.images)} images to train on, but"
                    f" needs at least {FEWEST}; add images"
                )
            return own, self.pairs["val"]
        test = self.pairs["test"]
        end = first_target(knowledge, len(test.images))
        cut = int((1 - HELD_OUT) * end)
        if cut < FEWEST:
            raise DataError(
                f"{len(test.images)} test images leave the public_data attacker {cut} to train on,"
                f" {FEWEST} are needed; add images (a study can raise data.test_limit or"
                " data.test_fraction)"
            )
        return test.part(slice(cut)), test.part(slice(cut, end))

    def attempt(
        self, attack: str, knowledge: str, checkpoint: Checkpoint, start: nn.Module | None = None
    ) -> Outcome | str:
        """Return the outcome of one attack, from the decoder `start` if given, or why it failed.

        Raises:
            DataError: as `owned` does.
        """
        task = self.task(attack, knowledge, checkpoint, start)
        try:
            return ATTACKS[self.study.attacks[attack].kind](task)
        except DivergedError as error:
            return str(error)

    def decoder(self, attack: str, state: Mapping[str, Tensor]) -> nn.Module:
        """Return an attack's trained decoder; raise RuntimeError if the tensors do not fit it."""
        options, images = self.study.attacks[attack].model_dump(), self.data.train.images
        shapes = self.victim.model.feature_shape, self.data.image_shape
        masked = self.victim.channel.masks
        return load_decoder(state, options, *shapes, masked=masked).to(images.device)

    def recognition(self, answers: Tensor, knowledge: str) -> dict[str, Tensor]:
        """Return whether judge and victim recognise reconstructions, and the judge originals."""
        split = targets(self.data, knowledge)
        noise = generator(self.seed, f"recognition/{knowledge}")
        asked = (self.judge, answers), (self.victim, answers), (self.judge, split.images)
        found = [
            by.logits(by.features(images), noise).argmax(1) == split.labels for by, images in asked
        ]
        return dict(zip(RECOGNITION, found, strict=True))

    def task(
        self, attack: str, knowledge: str, checkpoint: Checkpoint, start: nn.Module | None = None
    ) -> Task:
        """Return an attack's task; attacks with the same `queries` see the same release."""
        settings = self.study.attacks[attack]
        options = settings.model_dump()
        own, held_out = self.owned(knowledge)
        own = own.part(slice(options.get("images")))  # the stored images are in random order
        # The study's setting says that mirror images look natural, whatever the defence trains on.
        if options.get("flip") and self.study.train.augment.flip:
            mirrored = own.images.flip(3)
            own = own.followed_by(Pairs(mirrored, self.victim.features(mirrored), own.labels))
        test, noise = self.pairs["test"].features, generator(self.seed, f"target/{knowledge}")
        attacked = test[first_target(knowledge, len(test)) :]
        task = Task(
            victim=self.victim,
            own=own,
            held_out=held_out,
            released=self.victim.channel(attacked, noise, queries=settings.releases),
            options=options,
            seed=derive(self.seed, f"attack/{attack}/{knowledge}"),
            title=f"{attack} {knowledge} on {self.defence} seed{self.seed}",
            checkpoint=checkpoint,
            judge=self.judge.model.eval(),
            start=start,
        )
        if settings.told_class:
            task = with_class(task, targets(self.data, knowledge).labels, len(self.data.classes))
        return task
