"""The steps of the learned attacks and of the search are fit to be replayed."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from easy_tasks import OPTIONS, easy_task, trained_decoder
from tape import Called, TapeReplay

from cemlib.attacks import denoiser as denoising
from cemlib.attacks.decoder import decoder
from cemlib.attacks.gan import gan
from cemlib.attacks.optimisation import optimisation
from cemlib.attacks.perceptual import perceptual
from cemlib.attacks.residual import residual
from cemlib.attacks.task import Outcome, Task
from cemlib.config.attacks import Decoder, Gan, Optimisation, Perceptual, Residual
from cemlib.config.base import Section
from cemlib.numerics.precision import set_up
from cemlib.numerics.replay import Replay

# The steep distance between features and the game of generator and critic enlarge any rounding:
# these rates are whole in float32.
LEARNED = OPTIONS | {"epochs": 4, "batch_size": 16, "lr": 2**-7}
SEARCH = {"iterations": 30, "batch_size": 25}
SHORT = {"epochs": 1, "blocks": 1, "width": 8}  # of the denoiser
RATES = {"lr": 2**-11, "critic_lr": 2**-8}
CRITIC = RATES | {"epochs": 4, "batch_size": 16, "critic_steps": 3, "critic_width": 4}
CASES = {
    "decoder": (decoder, Decoder, LEARNED),
    "residual": (residual, Residual, LEARNED),
    "perceptual": (perceptual, Perceptual, LEARNED),
    "gan": (gan, Gan, CRITIC),
    "optimisation": (optimisation, Optimisation, SEARCH),
    "denoiser": (optimisation, Optimisation, SEARCH | {"denoiser_weight": 1.0}),
}


def attacked(
    place: Path,
    attack: Callable[[Task], Outcome],
    config: type[Section],
    options: dict,
    device: str = "cpu",
) -> Outcome:
    """What an attack finds, from a decoder of one epoch where it starts from one."""
    first = trained_decoder(place / "start", epochs=1).to(device) if config is Gan else None
    where = {"std": 0.05, "train": 99, "start": first, "device": device}
    return attack(easy_task(place, config, **where, **options)[0])


@pytest.mark.parametrize("name", CASES)
def test_replayed_steps_attack_as_called_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Up to the rounding of the learning rate, which a replay reads in float32."""
    monkeypatch.setattr(denoising, "OPTIONS", denoising.OPTIONS | SHORT)
    called = attacked(tmp_path / "a", *CASES[name])
    for module in ("learning", "optimisation"):  # a function hides the module of its name
        monkeypatch.setattr(sys.modules[f"cemlib.attacks.{module}"], "Replay", TapeReplay)
    before = TapeReplay.count
    replayed = attacked(tmp_path / "b", *CASES[name])
    assert TapeReplay.count > before + 10
    for row, other in zip(called.history, replayed.history, strict=True):
        numbers = {n: value for n, value in row.items() if value is not None and n != "seconds"}
        assert {name: other[name] for name in numbers} == pytest.approx(numbers, rel=1e-3)
    torch.testing.assert_close(replayed.reconstructions, called.reconstructions, atol=2e-3, rtol=0)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", CASES)
def test_a_graph_attacks_as_called_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, precision: str
) -> None:
    """On a GPU, where algorithms may differ in rounding."""
    set_up(torch.device("cuda"), 1)
    monkeypatch.setattr(denoising, "OPTIONS", denoising.OPTIONS | SHORT)
    attack, config, options = CASES[name]
    if "precision" in config.model_fields:
        options = options | {"precision": precision}
    captured = []

    class Graph(Replay):
        def _captured(self, step: Callable[[], None]) -> torch.cuda.CUDAGraph:
            captured.append(step)
            return super()._captured(step)

    errors = []
    for kind in (Called, Graph):
        for module in ("learning", "optimisation"):
            monkeypatch.setattr(sys.modules[f"cemlib.attacks.{module}"], "Replay", kind)
        found = attacked(tmp_path / kind.__name__, attack, config, options, "cuda")
        errors.append(found.history[-1]["val_mse"])
    assert captured
    assert errors[1] == pytest.approx(errors[0], rel=0.1)
