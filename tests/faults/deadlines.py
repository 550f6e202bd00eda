"""A deadline for single examples: what hangs fails, and does not hold up the tests."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class HungError(BaseException):
    """No Exception: code that turns whatever decoders raise into an error must let it pass."""


@contextmanager
def watchdog(seconds: float = 60) -> Iterator[None]:
    """Fail if the block takes longer; generous, since it tells hanging from slow machines."""
    before = signal.signal(signal.SIGALRM, _bark)
    # And again: the first may only end the wait for a thread that hangs.
    signal.setitimer(signal.ITIMER_REAL, seconds, 5)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _bark(_: int, frame: FrameType | None) -> None:
    raise HungError(f"still busy: {frame}")
