"""A synthetic study in a folder: metrics, histories and pictures as real jobs leave."""

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from PIL import Image

from cemlib.records.files import read_json, write_jsonl
from cemlib.records.layout import AttackFolder, Layout, RunFolder
from cemlib.records.seal import write_sealed
from cemlib.report.tables import collect

PROVENANCE = {
    "fingerprint": "f" * 64,
    "commit": "0123456789" * 4,
    "dirty": False,
    "versions": {"python": "3.11", "torch": "2.15.0"},
    "device": "cpu",
    "machine": "x86_64",
    "threads": 1,
}


@dataclass
class Study:
    """Writes result files of an experiment and remembers their paths."""

    root: Path
    runs: list[Path] = field(default_factory=list)
    attacks: list[Path] = field(default_factory=list)

    def frames(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Runs and attacks as the report reads them; all attacks on failed runs have failed."""
        runs, attacks = collect(self.runs, self.attacks)
        kinds = attacks[["attack", "knowledge", "queries"]].drop_duplicates()
        failed = runs.loc[runs["status"] == "failed", ["defence", "seed", "status", "reason"]]
        for row in failed.merge(kinds, how="cross").to_dict("records"):
            self.add_attack(**row)
        return collect(self.runs, self.attacks)

    def add_run(self, defence: str, seed: int, **changes: Any) -> RunFolder:
        folder = Layout(self.root).run(defence, seed)
        failed = changes.get("status") == "failed"
        metrics = {
            "kind": "run",
            "status": "ok",
            "reason": None,
            "experiment": "synthetic",
            "defence": defence,
            "seed": seed,
            "top1": None if failed else 0.9,
            "val_top1": None if failed else 0.91,
            "leakage_nats": None if failed else 12.5,
            "leakage_images": None if failed else 640,
            "chance_top1": None if failed else 0.1,
            "selected_epoch": 3,
            "selected_on": "last",
            "epochs": 3,
            "provenance": PROVENANCE,
            "wall_seconds": 1.5,
            "peak_memory_mb": 300.0,
        }
        write_sealed(folder.metrics, metrics | changes)
        if folder.metrics not in self.runs:
            self.runs.append(folder.metrics)
        return folder

    def add_attack(
        self,
        defence: str,
        seed: int,
        attack: str = "decoder",
        knowledge: str = "train_data",
        **changes: Any,
    ) -> AttackFolder:
        """An attack, on a run that is added unless it is there."""
        run = Layout(self.root).run(defence, seed)
        if run.metrics not in self.runs:
            self.add_run(defence, seed)
        folder = run.attack(attack, knowledge)
        errors = {"mse": 0.01, "psnr": 20.0, "psnr_of_mean_mse": 19.5, "ssim": 0.5}
        scores = errors | {"recon_top1": 0.3}
        if changes.get("status") == "failed":
            scores = dict.fromkeys(scores)
        metrics = {
            "kind": "attack",
            "status": "ok",
            "reason": None,
            "experiment": "synthetic",
            "defence": defence,
            "seed": seed,
            "attack": attack,
            "knowledge": knowledge,
            **scores,
            "ssim_valid": scores["ssim"],
            "queries": 1,
            **dict.fromkeys(("recon_top1_victim", "judge_top1")),
            **dict.fromkeys(("late_improvement", "converged")),
            "n_images": 200,
            "provenance": PROVENANCE,
            "wall_seconds": 2.5,
            "peak_memory_mb": 320.0,
        }
        write_sealed(folder.metrics, metrics | changes)
        image_scores((metrics | changes)["mse"] or 1.0).to_parquet(folder.per_image)
        if folder.metrics not in self.attacks:
            self.attacks.append(folder.metrics)
        return folder


def change(record: Path, **values: Any) -> None:
    """Write a record again, with other values."""
    write_sealed(record, read_json(record) | values)


DEFENCES = ("none", "noise", "clustering", "gated", "slot")
KNOWLEDGES = ("train_data", "public_data")
_ACCURACY = dict(zip(DEFENCES, (0.997, 0.996, 0.991, 0.984, 0.979), strict=True))
_MSE = dict(zip(DEFENCES, (0.0014, 0.0015, 0.0057, 0.0068, 0.0031), strict=True))
_HARDER = {"train_data": 1.0, "public_data": 1.35}
EPOCHS = 30


def fill(
    study: Study,
    defences: tuple[str, ...] = DEFENCES,
    knowledges: tuple[str, ...] = KNOWLEDGES,
    seeds: int = 3,
) -> Study:
    """A finished study: three attacks on every run, and all the files beside the metrics."""
    rng = np.random.default_rng(0)
    for defence in defences:
        for seed in range(seeds):
            top1 = _ACCURACY[defence] + 0.002 * rng.standard_normal()
            bound = None if defence == "none" else 400 * (1 - 60 * _MSE[defence]) + seed
            folder = study.add_run(defence, seed, top1=top1, val_top1=top1, leakage_nats=bound)
            write_jsonl(folder.history, training_history(defence, rng))
            for knowledge in knowledges:
                _add_attacks(study, defence, seed, knowledge, rng)
    return study


def _add_attacks(
    study: Study, defence: str, seed: int, knowledge: str, rng: np.random.Generator
) -> None:
    base = _MSE[defence] * _HARDER[knowledge] * math.exp(0.06 * rng.standard_normal())
    for attack, error in (("decoder", base), ("linear", 2.2 * base), ("mean_image", 0.0466)):
        ratio = -10 * math.log10(error)
        folder = study.add_attack(
            defence,
            seed,
            attack,
            knowledge,
            mse=error,
            psnr=ratio + 0.3,
            psnr_of_mean_mse=ratio,
            ssim=1 - 9 * error**0.7,
            recon_top1=0.98 - 15 * error,
            recon_top1_victim=0.97 - 15 * error,
            judge_top1=0.985,
            late_improvement=0.002 if attack == "decoder" else None,
            converged=True if attack == "decoder" else None,
        )
        history = attack_history(error, rng) if attack == "decoder" else []
        write_jsonl(folder.history, history)
        strip(error).save(folder.reconstructions)


def image_scores(error: float) -> pd.DataFrame:
    """Scores of 41 single images, spread about an error."""
    mse = error * np.geomspace(0.5, 2, 41)
    places = {"index": np.arange(41), "label": np.arange(41) % 10}
    return pd.DataFrame(places | {"mse": mse, "ssim": 1 - 5 * mse, "psnr": -10 * np.log10(mse)})


def training_history(defence: str, rng: np.random.Generator) -> list[dict[str, Any]]:
    """What the figures read of a run's epochs; a surrogate acts from the third on."""
    rows = []
    for epoch in range(1, EPOCHS + 1):
        loss = 2.2 * math.exp(-epoch / 4) + 0.02
        active = defence in ("clustering", "gated", "slot") and epoch > 2
        bound = 400 * (1 - 0.02 * epoch * active) + 5 * rng.random()
        acting = {
            "surrogate/gradient_ratio": 0.5 * math.exp(-epoch / 6) * (1 + 0.3 * rng.random()),
            "surrogate/active": math.exp(-epoch / 40),
            "surrogate/effective_sample_size": 9 + rng.random(),
        }
        row = {
            "epoch": epoch,
            "lambda_eff": 0.3 if active else 0.0,
            "train_ce": loss,
            "surrogate": 0.4 * math.exp(-epoch / 10) if active else 0.0,
            "val_loss": 1.1 * loss + 0.02 * rng.random(),
            "val_leakage_nats": None if defence == "none" else bound,
        }
        rows.append(row | (acting if active else {}))
    return rows


def attack_history(error: float, rng: np.random.Generator) -> list[dict[str, Any]]:
    return [
        {
            "epoch": epoch,
            "val_mse": error * (1.0 + 21 * math.exp(-epoch / 5)) * (1 + 0.06 * rng.random()),
            "val_recon_top1": (0.98 - 15 * error) * (1 - math.exp(-epoch / 4)),
        }
        for epoch in range(1, EPOCHS + 1)
    ]


def strip(error: float) -> Image.Image:
    """Twelve originals above copies with noise of that error."""
    rng = np.random.default_rng(4)
    originals = rng.random((16, 12 * 16))
    noisy = originals + math.sqrt(error) * rng.standard_normal(originals.shape)
    both = np.vstack([originals, noisy]).clip(0, 1)
    pixels = (255 * both).round().astype(np.uint8)
    return Image.fromarray(pixels.repeat(2, 0).repeat(2, 1))
