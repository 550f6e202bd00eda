"""Run one number of images in one repeat: learn, vote, learn again from the answers.

Every participant votes, the requester with them, and the answers are one release of noisy counts.
Whatever is done with them costs no more privacy, so each participant in turn is taken for the
requester: it trains again, from the weights that it first started with, on its own images and the
answered ones.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from cemlib.config.errors import ConfigError
from cemlib.config.labelling import LabellingStudy
from cemlib.labelling.accounting import noise_std
from cemlib.labelling.errors import LabellingError
from cemlib.labelling.learning import Lesson
from cemlib.labelling.participants import METHODS, Participants, Weighting
from cemlib.labelling.protocol import Keys, Setting, aggregate, deal
from cemlib.numerics.seeds import derive

Found: TypeAlias = dict[str, Tensor]
Stage: TypeAlias = Callable[[str, Callable[[], Found]], Found]
COST = ("encrypt_seconds", "decrypt_seconds", "bytes_up", "ciphertexts")


@dataclass(frozen=True)
class Variant:
    """Choose how to train again: with which answers, and with which weights.

    Attributes:
        epsilon: of one query; None is no noise.
        method: `capc` gives every answered image the weight 1, `iel` its certainty, and `constant`
            the mean certainty of all, which shows what the size of the weights alone does.
    """

    epsilon: float | None
    method: Weighting


def variants(study: LabellingStudy) -> list[Variant]:
    """Return all variants of a study, those with its own epsilon first."""
    own = [Variant(study.privacy.epsilon, method) for method in METHODS]
    return own + [Variant(e, method) for e in study.privacy.sweep for method in METHODS[:2]]


@dataclass(frozen=True)
class Experiment:
    """Run one number of images in one repeat, in stages that a killed job need not repeat.

    Attributes:
        participants: of the repeat.
        images: labelled images of each.
        stage: returns what the stage of a name found, from an earlier process if it has it.
    """

    participants: Participants
    images: int
    stage: Stage

    def __post_init__(self) -> None:
        """Refuse noise or masks that the protocol cannot carry, before anybody learns.

        Raises:
            ConfigError: says which.
        """
        try:
            for epsilon in self.study.epsilons():
                self._setting(epsilon)
        except LabellingError as error:
            raise ConfigError(f"encryption and privacy do not fit together: {error}") from error

    @property
    def study(self) -> LabellingStudy:
        """Return the study."""
        return self.participants.study

    def first(self) -> Found:
        """Return votes (N, Q), accuracy (N,) and losses (tenths, N) before anybody asked."""
        return self.stage(f"{self.images}/first", lambda: self._learned(list(enumerate(self._own))))

    def answers(self, epsilon: float | None) -> Found:
        """Return noisy counts (Q, k), and what they took, in the order of `COST`."""
        return self.stage(f"{self.images}/answers/{epsilon}", lambda: self._asked(epsilon))

    def again(self) -> Found:
        """Return accuracy (V, N) and losses (tenths, V, N) of every variant."""
        return self.stage(f"{self.images}/again", self._taught)

    def _learned(self, lessons: Sequence[tuple[int, Lesson]]) -> Found:
        return dict(vars(self.participants.learn(lessons)))

    def _asked(self, epsilon: float | None) -> Found:
        votes = self.first()["votes"].T.numpy()
        seed = derive(self.participants.repeat, f"labelling/noise/{self.images}/{epsilon}")
        noise = np.random.default_rng(seed)
        tally = aggregate(votes, self._setting(epsilon), self._keys, noise)
        cost = [float(getattr(tally.cost, name)) for name in COST]
        return {"counts": torch.from_numpy(tally.counts), "cost": torch.tensor(cost).double()}

    def _taught(self) -> Found:
        chosen = variants(self.study)
        found = self._learned(
            [
                (who, self.participants.taught(own, self.answers(v.epsilon)["counts"], v.method))
                for v in chosen
                for who, own in enumerate(self._own)
            ]
        )
        shape = (len(chosen), self.study.participants)
        losses = found["losses"].view(-1, *shape)
        return {"accuracy": found["accuracy"].view(shape), "losses": losses}

    @cached_property
    def _own(self) -> list[Lesson]:
        every = range(self.study.participants)
        return [self.participants.own(who, self.images) for who in every]

    @cached_property
    def _keys(self) -> Keys:
        return deal(self._setting(self.study.privacy.epsilon))

    def _setting(self, epsilon: float | None) -> Setting:
        keys = self.study.encryption
        return Setting(
            participants=self.study.participants,
            classes=len(self.participants.data.classes),
            noise_std=noise_std(self.study, epsilon),
            key_bits=keys.key_bits,
            mask_bits=keys.mask_bits,
            insecure_for_testing=keys.insecure_for_testing,
        )
