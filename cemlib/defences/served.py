"""The classifier of a run as MLflow's generic Python flavour loads it from an uploaded model.

MLflow imports this module by its name, and nothing here imports MLflow: the files are a run's own
(settings as JSON, weights as safetensors), so that no pickle and no code comes from the store.
"""

from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray

from cemlib.defences.deployed import Deployed, load_deployed
from cemlib.records.layout import RunFolder


class Served:
    """A classifier as it is deployed: what it releases has fresh noise at every call."""

    def __init__(self, deployed: Deployed) -> None:
        self._deployed = deployed
        self._noise = torch.Generator().manual_seed(0)

    def predict(self, images: NDArray[Any]) -> NDArray[Any]:
        """Return float32 logits (N, classes) of uint8 images (N, C, H, W)."""
        features = self._deployed.features(torch.from_numpy(images))
        return self._deployed.logits(features, self._noise).numpy()

    def get_raw_model(self) -> Deployed:
        """Return split model and channel."""
        return self._deployed


def _load_pyfunc(path: str) -> Served:
    """Load the model from the folder of its files; MLflow asks for this name."""
    return Served(load_deployed(RunFolder(Path(path)), torch.device("cpu")))
