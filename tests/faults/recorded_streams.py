"""The random streams that a small study asks for, and its results.

A program, for a process of its own: it replaces the function that derives seeds before anything
else of the package is imported. It prints JSON: for every case the calls and what came out.
"""

import hashlib
import json
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

import cemlib.numerics.seeds

PLAIN = cemlib.numerics.seeds.derive
CALLS: list[tuple[int, str, int, str, int]] = []


def derive(seed: int, stream: str, step: int = 0) -> int:
    """As in the package, with every call written down."""
    number = PLAIN(seed, stream, step)
    caller = sys._getframe(1)
    if caller.f_code.co_name == "generator":
        caller = caller.f_back or caller
    where = f"{caller.f_globals['__name__']}.{caller.f_code.co_name}"
    CALLS.append((seed, stream, step, where, number))
    return number


cemlib.numerics.seeds.derive = derive

from result_files import bits, timeless  # noqa: E402 - the package comes after the spy
from short_study import REFINEMENT  # noqa: E402
from tiny_study import RAW, blob_data  # noqa: E402

from cemlib.config import parse  # noqa: E402
from cemlib.config.study import JUDGE, JUDGE_SEED  # noqa: E402
from cemlib.data.prepare import prepare  # noqa: E402
from cemlib.data.prepared import save  # noqa: E402
from cemlib.evaluation.job import run as attack  # noqa: E402
from cemlib.records.files import load_tensors, read_json, read_jsonl  # noqa: E402
from cemlib.study.plan import Plan  # noqa: E402
from cemlib.study.split import attack_job, train_job  # noqa: E402
from cemlib.training.job import run  # noqa: E402

DEFENCE = {"surrogate": "slot", "channel": "dropout", "penalty": {"name": "arl", "width": 8}}
ATTACKS = {
    "decoder": {"epochs": 2, "blocks": 1, "width": 8},
    "gan": {"epochs": 2, "start": "decoder", "critic_steps": 2},
    "refinement": REFINEMENT | {"iterations": 2, "denoiser_weight": 1.0},
    "random_features": {"features": 8},
    "linear": {},
    "mean_image": {},
}
STUDY = RAW | {
    "train": {"epochs": 4, "batch_size": 32, "milestones": [3], "select": "best_test"},
    "defences": {"defended": DEFENCE},
    "attacks": ATTACKS,
}


def results(place: Path, seed: int) -> dict[str, str]:
    """Carry the study out; digests of its parts, without how long they took."""
    plan = Plan(parse(json.loads(json.dumps(STUDY | {"results": str(place)}))), device="cpu")
    splits = prepare(plan.study.data).indices
    save(blob_data(), plan.layout.data)
    run(train_job(plan, JUDGE, JUDGE_SEED))
    run(train_job(plan, "defended", seed))
    list(attack(attack_job(plan, "defended", seed, tuple(ATTACKS))))
    folder = plan.layout.run("defended", seed)
    parts: dict[str, Any] = {"splits": {name: rows.tolist() for name, rows in splits.items()}}
    of_run = bits(folder.root, left_out=["attacks/"]).items()
    parts |= {f"run {name.partition('.')[0]}": found for name, found in of_run}
    for name in ATTACKS:
        made = folder.attack(name, "train_data")
        parts[f"{name} attacker"] = {n: t.tolist() for n, t in load_tensors(made.attacker).items()}
        parts[f"{name} history"] = timeless(read_jsonl(made.history))
        parts[f"{name} scores"] = [read_json(made.metrics)[score] for score in ("mse", "ssim")]
        parts[f"{name} recognised"] = read_json(made.metrics)["recon_top1_victim"]
    return {name: hashlib.sha256(repr(part).encode()).hexdigest() for name, part in parts.items()}


def main(place: Path, salt: int, cases: list[str]) -> None:
    """Each case is a seed."""
    found = {}
    for number, case in enumerate(cases):
        random.seed(salt)
        np.random.seed(salt)
        torch.manual_seed(salt)
        CALLS.clear()
        parts = results(place / f"{salt}-{number}", int(case))
        found[case] = {"calls": list(CALLS), "parts": parts}
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
