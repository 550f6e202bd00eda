"""A checkpoint whose job dies in this process, and what the progress says of going on."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from cemlib.records.checkpoint import Checkpoint


@dataclass
class Dying(Checkpoint):
    """A checkpoint whose job is interrupted after some of its writes."""

    interval: float = 0.0
    writes_left: int = 2

    def save(self, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> None:
        super().save(tensors, state)
        self.writes_left -= 1
        if self.writes_left == 0:
            raise KeyboardInterrupt


def first_shown(text: str) -> int:
    """The first epoch, or batch of images, in the lines that the progress printed."""
    found = re.search(r" (?:epoch|batch) (\d+)/", text)
    assert found, text
    return int(found[1])
