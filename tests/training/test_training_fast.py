"""Training in low precision against training in float32."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_study import CPU, blob_data, tiny_trainer
from torch import Tensor

from cemlib.numerics.precision import resolve
from cemlib.training.trainer import Trainer

PRECISIONS = ("float32", "bfloat16")


def trainer(place: Path, defence: str, **train: Any) -> Trainer:
    return tiny_trainer(place, defence, blob_data(train=480), **{"batch_size": 32} | train)


def weights(subject: Trainer) -> Tensor:
    return torch.cat([w.detach().flatten() for w in subject.deployed.model.parameters()])


@pytest.mark.parametrize("defence", ["noise", "clustering", "nopeek", "everything"])
def test_a_step_in_half_precision_is_the_step(tmp_path: Path, defence: str) -> None:
    """Products rounded to 8 bits change an update by a few per cent; what is kept is not."""
    plain, fast = (trainer(tmp_path, defence, batch_size=480, precision=p) for p in PRECISIONS)
    start = weights(plain)
    assert torch.equal(start, weights(fast))
    rows = [subject.epoch(1) for subject in (plain, fast)]
    off, moved = weights(fast) - weights(plain), weights(plain) - start
    assert 0 < off.norm() < 0.05 * moved.norm()
    assert rows[1]["train_ce"] == pytest.approx(rows[0]["train_ce"], rel=0.01)
    kept = [module.state_dict() for module in fast.defended.modules.values()]
    assert torch.bfloat16 not in {tensor.dtype for state in kept for tensor in state.values()}
    assert {t.dtype for t in fast.step.optimiser.state_dict().values()} == {torch.float32}


def test_a_training_in_half_precision_ends_as_well(tmp_path: Path) -> None:
    plain, fast = (trainer(tmp_path, "clustering", precision=p) for p in PRECISIONS)
    for number in (1, 2, 3, 4):
        rows = [subject.epoch(number) for subject in (plain, fast)]
        leakage = [row["val_leakage_nats"] for row in rows]
        assert leakage[1] == pytest.approx(leakage[0], rel=0.05)
    assert rows[1]["val_top1"] == rows[0]["val_top1"] == 1


def test_auto_is_what_the_processor_multiplies() -> None:
    """By the flags that the kernel lists, where it does."""
    listed = Path("/proc/cpuinfo")
    if not listed.is_file() or "flags" not in listed.read_text():
        pytest.skip("the system does not list the processor's flags")
    flags = next(line for line in listed.read_text().splitlines() if line.startswith("flags"))
    fast = bool({"avx512_bf16", "amx_bf16"} & set(flags.split()))
    assert resolve("auto", CPU) == ("bfloat16" if fast else "float32")
    assert [resolve(kind, CPU) for kind in PRECISIONS] == list(PRECISIONS)
