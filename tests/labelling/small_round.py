"""A round of four participants with a short key, which the tests of the protocol share."""

import numpy as np

from cemlib.labelling.messages import Round
from cemlib.labelling.parties import Aggregator, Participant
from cemlib.labelling.protocol import Setting, deal

SETTING = Setting(4, 3, noise_std=2.0, key_bits=256, insecure_for_testing=True)
KEYS = deal(SETTING)
VOTES = np.array([[0, 1, 2, 2], [1, 1, 1, 1], [0, 2, 0, 1]])
TALLIES = [[1, 1, 2], [0, 4, 0], [2, 1, 1]]


def parties(setting: Setting = SETTING) -> tuple[Aggregator, list[Participant]]:
    """The parties of a new round; the noise is the same in each, the masks are not."""
    round_ = Round(KEYS.public, setting, len(VOTES))
    everybody = [Participant(round_, s, VOTES[:, s.index], 10 + s.index) for s in KEYS.shares]
    return Aggregator(round_), everybody


def voted() -> tuple[Aggregator, list[Participant]]:
    """The parties of a round in which all have voted."""
    aggregator, everybody = parties()
    for index, party in enumerate(everybody):
        aggregator.receive_vote(index, party.vote())
    return aggregator, everybody
