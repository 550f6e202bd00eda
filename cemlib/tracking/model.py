"""Store the classifier of a run as an MLflow model: settings and safetensors, without pickle."""

import json
import shutil
import tempfile
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cemlib.records.files import FileError
from cemlib.records.layout import RunFolder
from cemlib.records.seal import FILES, check_files

LARGEST = 64 * 2**20  # bytes of weights that are uploaded at most
LOADER = "cemlib.defences.served"


@dataclass(frozen=True)
class Model:
    """A model for `mlflow.pyfunc.load_model`, from uint8 images (N, C, H, W) to logits.

    The weights are read and checked against the run's record when they are uploaded.
    """

    run: RunFolder
    record: Mapping[str, Any]
    network: Mapping[str, Any]

    def save(self, path: Path) -> None:
        """Write the model's folder; MLflow's own formats for torch models use pickle.

        Raises:
            FileError: if the weights are missing or differ from the record.
        """
        import numpy as np
        from mlflow.models import ModelSignature
        from mlflow.pyfunc import save_model
        from mlflow.types import Schema, TensorSpec

        side, classes = self.network["image_size"], self.network["num_classes"]
        images = TensorSpec(np.dtype("uint8"), (-1, len(self.network["mean"]), side, side))
        logits = TensorSpec(np.dtype("float32"), (-1, classes))
        versions = self.record["provenance"]["versions"]
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            copied = RunFolder(Path(folder))
            for name in ("config", "model", "metrics"):
                shutil.copyfile(getattr(self.run, name), getattr(copied, name))
            check_files(self.run.metrics, self.record, [copied.config, copied.model])
            warnings.simplefilter("ignore")  # about the missing input example
            save_model(
                path,
                loader_module=LOADER,
                data_path=folder,
                signature=ModelSignature(Schema([images]), Schema([logits])),
                pip_requirements=[
                    f"{name}=={versions[name]}" for name in versions if name != "python"
                ],
            )


def read_model(metrics: Path, record: Mapping[str, Any], config: bytes) -> Model | None:
    """Return the model of a finished run, or None if it has none or is larger than `LARGEST`.

    Raises:
        FileError: if the weights that the record names are missing.
    """
    run = RunFolder(metrics.parent)
    network = json.loads(config).get("network")
    if record["status"] != "ok" or network is None or run.model.name not in record[FILES]:
        return None
    if not run.model.is_file():
        raise FileError(f"{run.model}: missing; rerun the training that writes it")
    return Model(run, record, network) if run.model.stat().st_size <= LARGEST else None
