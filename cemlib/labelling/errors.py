"""Errors of a labelling round; a message says what was found and, if known, names the party."""

from collections.abc import Iterable

REQUESTER = -1  # its index; participants are numbered from 0


def party_name(index: int) -> str:
    """Return the name of a participant or the requester, as it stands in certificates."""
    return "requester" if index == REQUESTER else f"participant-{index}"


class LabellingError(ValueError):
    """A round of collaborative labelling cannot be carried out as requested."""


class MessageError(LabellingError):
    """A message is rejected: its size, kind, round, sender or content is wrong."""


class ShareError(LabellingError):
    """Shares of the key or partial decryptions are missing, or do not belong together."""


VOID = (
    "with an n-of-n key this round is void: start a new one with everyone, or deal new keys to"
    " those who remain"
)
ASK_AGAIN = "this round is void, and nothing was decrypted: start a new one with the same keys"
ADVICE = {  # participants enter the images in their ledgers before they send their part
    "decryption": "with an n-of-n key this round's tallies cannot be read, and participants who"
    " sent their part refuse these images from now on: ask about others, with new keys if a"
    " participant is lost",
    "tallies": "the tallies were decrypted but not delivered: their privacy is spent, and the"
    " ledgers refuse these images, so ask about others",
}


class DroppedOutError(LabellingError):
    """Parties have dropped out of a phase of a round, such as `votes`."""

    def __init__(self, gone: Iterable[int], phase: str) -> None:
        self.gone = tuple(sorted(gone))  # indices, `REQUESTER` for the requester
        names = ", ".join(map(party_name, self.gone))
        void = ASK_AGAIN if self.gone == (REQUESTER,) else VOID  # the requester has no share
        super().__init__(f"{phase}: nothing from {names}; {ADVICE.get(phase, void)}")
