"""A small study that the commands themselves carried out."""

import shutil
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import short_study
import yaml

from cemlib.cli import main

RAW: dict[str, Any] = short_study.STUDY | {
    "seeds": [0, 1],
    "reference": "noise",
    "data": short_study.STUDY["data"] | {"train_limit": 200, "test_limit": 60},
    "defences": {"noise": {}, "strong": {"noise_std": 0.5}},
    "attacks": {"linear": {}, "mean_image": {}},
}


@dataclass(frozen=True)
class Finished:
    """A study with its results."""

    root: Path

    @property
    def config(self) -> str:
        return str(self.root / "study.yaml")

    @property
    def results(self) -> Path:
        return self.root / "results/short"

    def run(self, name: str) -> Path:
        return self.results / "runs" / name

    def configure(self, **changes: Any) -> None:
        raw = RAW | {"results": str(self.root / "results")} | changes
        Path(self.config).write_text(yaml.safe_dump(raw, sort_keys=False))

    def says(self, *command: str, code: int = 0) -> tuple[str, str]:
        """Output and errors of a command on this study, which must end with this exit code."""
        out, errors = StringIO(), StringIO()
        with redirect_stdout(out), redirect_stderr(errors):
            assert main([*command, "--config", self.config]) == code, errors.getvalue()
        return out.getvalue(), errors.getvalue()

    def copy(self, root: Path) -> "Finished":
        shutil.copytree(self.root, root)
        copied = Finished(root)
        copied.configure()
        return copied
