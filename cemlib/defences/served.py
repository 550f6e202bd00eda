"""Load an uploaded model for MLflow's generic Python flavour, which imports this module by name.

The files are those of a run (settings as JSON, weights as safetensors), so that neither a pickle
nor code comes from the store.
"""

from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray

from cemlib.defences.deployed import Deployed, load_deployed
from cemlib.records.layout import RunFolder


class Served:
    """A deployed classifier, whose releases have new noise at every call."""

    def __init__(self, deployed: Deployed) -> None:
        self._deployed = deployed
        self._noise = torch.Generator().manual_seed(0)

    def predict(self, images: NDArray[Any]) -> NDArray[Any]:
        """Return float32 logits (N, classes) of uint8 images (N, C, H, W)."""
        features = self._deployed.features(torch.from_numpy(images))
        return self._deployed.logits(features, self._noise).numpy()

    def get_raw_model(self) -> Deployed:
        """Return the split model and its channel."""
        return self._deployed


def _load_pyfunc(path: str) -> Served:
    """Load the model from a folder; MLflow calls this function by its name."""
    return Served(load_deployed(RunFolder(Path(path)), torch.device("cpu")))
