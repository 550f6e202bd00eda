"""What the steps of an epoch say, kept on the device until its end: no step waits to be read."""

from collections.abc import Sequence

import torch
from torch import Tensor

from cemlib.errors import DivergedError


class Monitor:
    """Means of some statistics over an epoch, and the first step where one was not finite.

    Args:
        names: what the statistics are called, in the order in which a fault is blamed.
        device: where they are computed.
    """

    def __init__(self, names: Sequence[str], device: torch.device) -> None:
        self.names = names
        self.steps, self.samples = 0, 0
        self.sums = torch.zeros(len(names), dtype=torch.float64, device=device)
        self.first_bad = torch.zeros(len(names), dtype=torch.long, device=device)

    def add(self, values: Sequence[Tensor], samples: int) -> None:
        """Take the statistics of one step, scalars, as means over so many samples."""
        now = torch.stack([value.detach().to(self.sums) for value in values])
        self.steps += 1
        self.samples += samples
        self.sums += now * samples
        fresh = (self.first_bad == 0) & ~now.isfinite()
        self.first_bad += fresh * self.steps

    def means(self, epoch: int) -> dict[str, float]:
        """Read the means over the samples.

        Raises:
            DivergedError: if a statistic was not finite, naming epoch, batch (from 1) and it.
        """
        steps = self.first_bad.tolist()
        if any(steps):
            batch = min(step for step in steps if step)
            name = self.names[steps.index(batch)]
            raise DivergedError(
                f"epoch {epoch}, batch {batch}: {name} is not finite; a lower lr or weight may help"
            )
        return dict(zip(self.names, (self.sums / self.samples).tolist(), strict=True))
