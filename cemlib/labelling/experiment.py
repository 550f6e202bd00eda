"""Run one repeat with one number of images: train, vote, and train again on the answers.

Using the released counts again costs no privacy, so each participant in turn acts as the requester.
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
INIT = "init"  # the training before any query


@dataclass(frozen=True)
class Outcome:
    """The outcome of one repeat with one number of images."""

    participants: Participants  # the participants of the repeat
    first: Found  # results of `Participants.learn` before any query
    answers: dict[float | None, Tensor]  # the noisy counts (Q, k) by epsilon
    again: Found  # results of `Participants.learn` for each of the V variants, (V, N, ...)

    def by_method(self, name: str, epsilon: float | None) -> dict[str, Tensor]:
        """Return a result (N, ...) before the queries, and after them by method at an epsilon."""
        rows = zip(variants(self.participants.study), self.again[name], strict=True)
        after = {method: row for (asked, method), row in rows if asked == epsilon}
        return {INIT: self.first[name]} | after


def variants(study: LabellingStudy) -> list[tuple[float | None, Weighting]]:
    """Return (epsilon, method) of each new training; `constant` is for the study's own epsilon."""
    own = [(study.privacy.epsilon, method) for method in METHODS]
    return own + [(e, method) for e in study.privacy.sweep for method in METHODS[:2]]


def carry_out(participants: Participants, images: int, stage: Stage) -> Outcome:
    """Let all participants train on the given number of images each, vote, and train again.

    `stage` returns the result of a named stage: a stored one, or that of the function it is given.

    Raises:
        ConfigError: if the protocol cannot carry the noise or the masks; nothing is trained then.
        DivergedError: if a training diverges.
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
        sets = [(who, each.joined(lot)) for lot in answered for who, each in enumerate(own)]
        found = participants.learn(sets)
        shape = (len(chosen), len(own))
        return {name: rows.view(*shape, *rows.shape[1:]) for name, rows in found.items()}

    return Outcome(participants, first, answers, stage(f"{images}/again", learn_again))


def _settings(participants: Participants) -> dict[float | None, Setting]:
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
