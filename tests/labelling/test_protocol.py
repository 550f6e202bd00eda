"""A round in one process: the tallies, who sees what, and what is refused."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import kstest, norm
from small_round import KEYS, SETTING, TALLIES, VOTES, parties, voted

from cemlib.labelling.errors import DroppedOutError, LabellingError
from cemlib.labelling.parties import Aggregator, Participant
from cemlib.labelling.protocol import aggregate, exchange
from cemlib.labelling.sharing import combine


@pytest.fixture(scope="module")
def done() -> tuple[Aggregator, list[Participant]]:
    """The parties after a round, to be looked at only."""
    aggregator, everybody = parties()
    exchange(aggregator, everybody, [party.vote() for party in everybody])
    aggregator.counts()
    return aggregator, everybody


@pytest.mark.parametrize("packing", ["none", "images"])
@pytest.mark.parametrize("blinding", ["full", "short"])
def test_without_noise_tallies_are_exact(packing: Any, blinding: Any) -> None:
    setting = replace(SETTING, noise_std=0.0, packing=packing, blinding=blinding)
    assert aggregate(VOTES, setting, KEYS).tolist() == TALLIES


def test_noise_has_the_variance_sigma_squared_in_total() -> None:
    setting = replace(SETTING, participants=15, classes=10, noise_std=4.0)
    votes = np.random.default_rng(0).integers(0, 10, (120, 15))
    counts = aggregate(votes, setting, noise=np.random.default_rng(1))
    exact = np.stack([(votes == label).sum(1) for label in range(10)], axis=1)
    assert kstest((counts - exact).ravel(), norm(scale=4.0).cdf).pvalue > 1e-6


def test_a_generator_repeats_the_tallies_and_none_does_not() -> None:
    one, two = (aggregate(VOTES, SETTING, KEYS, np.random.default_rng(5)) for _ in range(2))
    assert np.array_equal(one, two)
    assert np.array_equal(one * 4096, np.rint(one * 4096))
    free = [aggregate(VOTES, SETTING, KEYS) for _ in range(2)]
    assert not np.any(free[0] == free[1])


def seen(party: Participant | Aggregator) -> set[int]:
    """Every number that a party holds, its round's public parameters aside."""
    found, parts = set[int](), [part for name, part in vars(party).items() if name != "round"]
    while parts:
        part = parts.pop()
        if isinstance(part, np.ndarray):
            found |= set(part.ravel().tolist())
        elif isinstance(part, dict | tuple | list):
            parts += part.values() if isinstance(part, dict) else part
        elif part is not None:
            found.add(getattr(part, "value", part))
    return found


def secrets_of(party: Participant) -> set[int]:
    """Masks, masked votes, noise (where it cannot be met by chance), and the share of the key."""
    one_hot = np.eye(3, dtype=np.int64)[party.votes] * 4096
    kept = [party.masks, party.masks + one_hot]
    return {int(x) for part in kept for x in part.ravel()} | {party.share.value}


def test_no_party_holds_anothers_secret(done: tuple[Aggregator, list[Participant]]) -> None:
    aggregator, everybody = done
    for party in everybody:
        own = secrets_of(party)
        assert party.votes.base is None  # no slice of what holds everybody's
        assert len(own) > 9
        assert own & seen(party)  # the search does find what is there
        assert not own & seen(aggregator)
        for other in everybody:
            assert other is party or not own & seen(other)


def test_who_cast_which_vote_changes_nothing_that_is_not_encrypted(
    done: tuple[Aggregator, list[Participant]],
) -> None:
    # The same masks and noise, two participants' votes exchanged: all that the aggregator and the
    # others see in the clear is the same, bit for bit; ciphertexts hide by the hardness of DCR.
    first, everybody = done
    second, exchanged = parties()
    swap = {0: 1, 1: 0, 2: 2, 3: 3}
    for index, party in enumerate(exchanged):
        old = everybody[index]
        party.votes = everybody[swap[index]].votes
        party.masks, party.noise = old.masks, old.noise
    exchange(second, exchanged, [party.vote() for party in exchanged])
    assert np.array_equal(first.counts(), second.counts())
    assert all(np.array_equal(first.plain[i], second.plain[i]) for i in range(4))
    assert np.array_equal(first.sums, second.sums)
    ours, theirs = (set(sum(p[0].ballots, ())) for p in (everybody, exchanged))
    assert len(ours) == len(theirs) > 4
    assert not ours & theirs


def test_those_who_decrypt_see_sums_with_masks_only(
    done: tuple[Aggregator, list[Participant]],
) -> None:
    aggregator, everybody = done
    assert len({party.asked for party in everybody}) == 1
    parts = {i: aggregator.partials[i][0] for i in range(4)}
    opened = combine(KEYS.public, parts, 4)
    width, slots = SETTING.slot_bits, SETTING.slots
    masks = sum(party.masks for party in everybody)
    expected = (np.array(TALLIES) * 4096 + masks).ravel()[:slots].tolist()
    assert [opened >> width * j & (1 << width) - 1 for j in range(slots)] == expected
    first = everybody[0]
    assert first.ballots == tuple(party.sent for party in everybody)
    assert not set(first.asked) & set(sum(first.ballots, ()))


@pytest.mark.parametrize("gone", [(0,), (1, 3)])
def test_without_all_votes_nothing_is_asked(gone: tuple[int, ...]) -> None:
    aggregator, everybody = parties()
    for index, party in enumerate(everybody):
        if index not in gone:
            aggregator.receive_vote(index, party.vote())
    with pytest.raises(DroppedOutError, match="votes: nothing from participant") as caught:
        aggregator.request()
    assert caught.value.gone == gone


def test_a_participant_who_leaves_after_voting_voids_the_round() -> None:
    aggregator, everybody = voted()
    for index in (0, 1, 3):
        aggregator.receive_partial(index, everybody[index].partial(aggregator.request()))
    with pytest.raises(DroppedOutError, match="decryption: nothing from participant-2") as caught:
        aggregator.counts()
    assert aggregator.sums is None
    assert caught.value.gone == (2,)


@pytest.mark.parametrize(
    ("votes", "message"),
    [
        (VOTES[:, :3], "votes: expected shape"),
        (VOTES[0], "votes: expected shape"),
        (VOTES[:0], "votes: expected shape"),
        (VOTES.astype(float), "votes from 0 to 2, as integers"),
    ],
)
def test_votes_that_do_not_fit_are_refused(votes: Any, message: str) -> None:
    with pytest.raises(LabellingError, match=message):
        aggregate(votes, SETTING, KEYS)


def test_keys_that_do_not_fit_are_refused() -> None:
    with pytest.raises(LabellingError, match="key_bits: 512 in the setting, 256 in the key"):
        aggregate(VOTES, replace(SETTING, key_bits=512), KEYS)
    with pytest.raises(LabellingError, match="4 shares for 3 participants"):
        aggregate(VOTES[:, :3], replace(SETTING, participants=3), KEYS)
