"""The synthetic study as MLflow gets it, and a reader of what a store holds."""

import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import synthetic_study
from PIL import Image

from cemlib import tracking
from cemlib.records.files import write_json, write_jsonl
from cemlib.records.layout import AttackFolder, RunFolder

CONFIG = {
    "train": {"epochs": 3, "lr": 0.05, "milestones": [1, 2]},
    "defence": {"noise_std": 0.025, "surrogate": None, "sparse_coding": False},
}

_PARTS = [
    f"{s}_{p}" for s in ("top1", "mse", "ssim", "recon_top1") for p in ("mean", "ci_low", "ci_high")
]
SUMMARY = f"""\
defence,attack,knowledge,{",".join(_PARTS)}
none,decoder,train_data,.9,.8,1,.9,.9,.9,.5,.4,.6,.7,,
none,worst_case,train_data,.9,.8,1,.03,.02,.04,.5,.4,.6,.7,,
"""


def curve(epochs: int) -> list[dict[str, Any]]:
    """Learning curve of a run, with numbers that tell the epochs apart."""
    return [
        {"epoch": n, "train_loss": 2.0 / n, "val_top1": 1 - 0.5 / n, "seconds": 0.5, "note": None}
        for n in range(1, epochs + 1)
    ]


@dataclass
class Study(synthetic_study.Study):
    """The synthetic study with the files that an upload reads, and its upload to a store."""

    uri: str = ""
    report: list[Path] = field(default_factory=list)

    def add_run(self, defence: str, seed: int, **changes: Any) -> RunFolder:
        size = {"parameters": {"client": 10, "server": 20}}
        folder = super().add_run(defence, seed, **({"config": CONFIG} | size | changes))
        write_jsonl(folder.history, curve(3))
        write_json(folder.config, {"seed": seed})
        return folder

    def expect_run(self, folder: RunFolder) -> RunFolder:
        self.runs.append(folder.metrics)
        return folder

    def add_attack(
        self, defence: str, seed: int, attack: str = "decoder", *names: str, **changes: Any
    ) -> AttackFolder:
        folder = super().add_attack(defence, seed, attack, *names, **({"config": CONFIG} | changes))
        write_jsonl(folder.history, [{"epoch": 1, "train_mse": 0.1, "seconds": 0.1}])
        Image.new("L", (16, 8)).save(folder.reconstructions)
        return folder

    def add_report(self, text: str = "| defence | MSE |\n|---|---|\n| none | .01 |\n") -> None:
        figure = self.root / "figures" / "privacy.png"
        tables = {self.root / "tables" / "summary.md": text}
        tables[self.root / "tables" / "summary.csv"] = SUMMARY
        for path in (*tables, figure):
            path.parent.mkdir(parents=True, exist_ok=True)
        for path, content in tables.items():
            path.write_text(content)
        Image.new("L", (4, 4)).save(figure)
        self.report = [*tables, figure]

    def files(self, experiment: str = "toy") -> tracking.Upload:
        """Return the files of the study, all of which are its present ones."""
        files = [*self.runs, *self.attacks], self.report
        return tracking.Upload(self.root, experiment, *files, lambda: {*chain(*files)})

    def track(self, experiment: str = "toy") -> tracking.Summary:
        return self.files(experiment).track(self.uri)


@dataclass
class Store:
    """What is in a store, read through MLflow's own client."""

    uri: str
    name: str = "toy"

    @property
    def client(self) -> Any:
        from mlflow import MlflowClient

        return MlflowClient(self.uri)

    def experiment(self) -> Any:
        return self.client.get_experiment_by_name(self.name)

    def runs(self) -> dict[str, Any]:
        """Active runs by folder, without a user's own; two runs of one folder are an error."""
        every = self.client.search_runs([self.experiment().experiment_id])
        found = [run for run in every if "cemlib.folder" in run.data.tags]
        by_folder = {run.data.tags["cemlib.folder"]: run for run in found}
        assert len(by_folder) == len(found), "a result is in the store twice"
        return by_folder

    def points(self, run: Any, metric: str) -> list[tuple[int, float]]:
        return [(p.step, p.value) for p in self.client.get_metric_history(run.info.run_id, metric)]

    def finished(self) -> int:
        """Return how many finished runs the database has, duplicates included."""
        query = "select count(*) from runs where status = 'FINISHED'"
        with closing(sqlite3.connect(self.uri.removeprefix("sqlite:///"), timeout=20)) as database:
            return int(database.execute(query).fetchone()[0])

    def files(self, run: Any, folder: str | None = None) -> set[str]:
        found = self.client.list_artifacts(run.info.run_id, folder)
        return {file.path for file in found if not file.is_dir}


def until(condition: Callable[[], Any]) -> None:
    """Wait for a condition."""
    for _ in range(4000):
        if condition():
            return
        time.sleep(0.005)
    pytest.fail("waited in vain")
