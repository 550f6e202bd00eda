"""Errors of a round of labelling; every message names the party and what was found."""

from collections.abc import Iterable

REQUESTER = -1  # where participants are numbered from 0 on


def party_name(index: int) -> str:
    """Return the name of a participant, or of the requester, as certificates have it."""
    return "requester" if index == REQUESTER else f"participant-{index}"


class LabellingError(ValueError):
    """Say why a round of collaborative labelling cannot be carried out as asked."""


class MessageError(LabellingError):
    """Say why a message is refused: its size, kind, round, sender or content is wrong."""


class ShareError(LabellingError):
    """Say which shares of the key or partial decryptions are missing, or that they do not fit."""


class DroppedOutError(LabellingError):
    """Name the parties who are gone, which voids the round; see `protocol.remaining`.

    Attributes:
        gone: the indices of the participants who are gone, and `REQUESTER`.
        phase: what the round was waiting for, `images`, `votes` or `decryption`.
    """

    def __init__(self, gone: Iterable[int], phase: str) -> None:
        self.gone = tuple(sorted(gone))
        self.phase = phase
        names = ", ".join(map(party_name, self.gone))
        super().__init__(
            f"{phase}: nothing from {names}; with an n-of-n key this round is void: begin a new one"
            " with all, or with new keys for those left"
        )
