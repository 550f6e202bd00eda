"""Run one repeat with one number of images: learn, vote, and learn again from the answers.

Every participant votes, the requester with them, and the answers are one release of noisy counts.
Using them more than once costs no more privacy, so each participant in turn acts as the requester:
it trains again, from the weights that it first started with, on its own images and the answered
ones.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from cemlib.config.errors import ConfigError
from cemlib.config.labelling import LabellingStudy
from cemlib.labelling.accounting import noise_std
from cemlib.labelling.errors import LabellingError
from cemlib.labelling.participants import METHODS, Found, Participants, Weighting
from cemlib.labelling.protocol import Setting, aggregate, deal
from cemlib.numerics.seeds import derive

Stage: TypeAlias = Callable[[str, Callable[[], Found]], Found]
INIT = "init"  # before anybody asked


@dataclass(frozen=True)
class Outcome:
    """Hold what one repeat with one number of images came to.

    Attributes:
        participants: of the repeat.
        first: what `Participants.learn` found before anybody asked.
        answers: by epsilon, the noisy counts (Q, k).
        again: what `Participants.learn` found of each of the V variants, (V, N, ...).
    """

    participants: Participants
    first: Found
    answers: dict[float | None, Tensor]
    again: Found

    def by_method(self, name: str, epsilon: float | None) -> dict[str, Tensor]:
        """Return what was found (N, ...) before, and after by each method at an epsilon."""
        rows = zip(variants(self.participants.study), self.again[name], strict=True)
        after = {method: row for (asked, method), row in rows if asked == epsilon}
        return {INIT: self.first[name]} | after


def variants(study: LabellingStudy) -> list[tuple[float | None, Weighting]]:
    """Return the epsilons and methods by which participants train again.

    The control `constant` is tried at the study's own epsilon alone, which comes first.
    """
    own = [(study.privacy.epsilon, method) for method in METHODS]
    return own + [(e, method) for e in study.privacy.sweep for method in METHODS[:2]]


def carry_out(participants: Participants, images: int, stage: Stage) -> Outcome:
    """Let all participants of a repeat learn from so many images each, vote, and learn again.

    `stage` returns what the stage of a name found, from an earlier process if it has it.

    Raises:
        ConfigError: the protocol cannot carry the noise or the masks; nobody has learned yet.
        DivergedError: a training diverged.
    """
    study = participants.study
    settings = _settings(participants)
    own = [participants.own(who, images) for who in range(study.participants)]
    first = stage(f"{images}/first", lambda: participants.learn(list(enumerate(own))))
    keys = deal(settings[study.privacy.epsilon])

    def ask(epsilon: float | None) -> Found:
        seed = derive(participants.repeat, f"labelling/noise/{images}/{epsilon}")
        noise = np.random.default_rng(seed)
        counts = aggregate(first["votes"].T.numpy(), settings[epsilon], keys, noise)
        return {"counts": torch.from_numpy(counts)}

    answers = {e: stage(f"{images}/answers/{e}", partial(ask, e))["counts"] for e in settings}

    def learn_again() -> Found:
        chosen = variants(study)
        answered = (participants.answered(answers[e], e, method) for e, method in chosen)
        lessons = [(who, lesson.joined(lot)) for lot in answered for who, lesson in enumerate(own)]
        found = participants.learn(lessons)
        shape = (len(chosen), len(own))
        return {name: rows.view(*shape, *rows.shape[1:]) for name, rows in found.items()}

    return Outcome(participants, first, answers, stage(f"{images}/again", learn_again))


def _settings(participants: Participants) -> dict[float | None, Setting]:
    """Return the setting of the votes by epsilon."""
    study = participants.study
    try:
        return {
            epsilon: Setting(
                participants=study.participants,
                classes=len(participants.data.classes),
                noise_std=noise_std(study, epsilon),
                **study.encryption.plain(),
            )
            for epsilon in study.epsilons()
        }
    except LabellingError as error:
        raise ConfigError(f"encryption and privacy do not fit together: {error}") from error
