"""Errors of a round of labelling; every message names the party and what was found."""

from collections.abc import Iterable


class LabellingError(ValueError):
    """Say why a round of collaborative labelling cannot be carried out as asked."""


class MessageError(LabellingError):
    """Say why a message is refused: its size, kind, round, sender or content is wrong."""


class ShareError(LabellingError):
    """Say which shares of the key or partial decryptions are missing, or that they do not fit."""


class DroppedOutError(LabellingError):
    """Name the participants who are gone, which voids the round; see `protocol.remaining`.

    Attributes:
        gone: the indices of the participants who are gone.
        phase: what the round was waiting for, `votes` or `decryption`.
    """

    def __init__(self, gone: Iterable[int], phase: str) -> None:
        self.gone = tuple(sorted(gone))
        self.phase = phase
        names = ", ".join(str(index) for index in self.gone)
        super().__init__(
            f"{phase}: nothing from participant {names}; with an n-of-n key this round is void and "
            "reveals nothing: go on with protocol.remaining, a new round of those left"
        )
