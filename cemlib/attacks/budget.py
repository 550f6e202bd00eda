"""The budget of a learned attack, the decoder that it trains, and whether it converged.

With `budget: strong` an attack trains three times as long, with networks half as wide again, and
with the best of three learning rates: each is tried for a third of the configured epochs, with a
schedule of its own, and the lowest MSE on the attacker's held-out images wins. This assumes that a
short trial ranks the rates as a long training would. The best rate of a short training tends to be
too high for a long one, but by less than the factor 3 between the trials.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any

import torch
from torch import Tensor, nn

from cemlib.attacks.task import Task
from cemlib.models.decoder import CorrectedDecoder, Decoder
from cemlib.models.uncoding import Uncoding
from cemlib.numerics.divergence import DivergedError
from cemlib.records.checkpoint import Checkpoint

EPOCHS = 3  # the strong budget's epochs, as a multiple of the configured ones
WIDTHS = ("width", "critic_width")  # options that become half as large again
RATES = (1.0, 1 / 3, 3.0)  # tried as multiples of the configured rate, which wins a tie
TOLERANCE = 0.01


def budgeted(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options with the epochs and widths of their budget."""
    if options["budget"] == "standard":
        return dict(options)
    wider = {name: (3 * options[name] + 1) // 2 for name in WIDTHS if name in options}
    return {**options, **wider, "epochs": EPOCHS * options["epochs"]}


def strengthened(task: Task, trial: Callable[[Task], float]) -> Task:
    """Return the task with the options of its budget, and the learning rate of the best trial.

    `trial` trains on a task and returns the held-out MSE.

    Raises:
        DivergedError: if every trial of a strong budget diverged.
    """
    if task.options["budget"] == "standard":
        return task
    return replace(task, options=budgeted(task.options) | {"lr": _best_rate(task, trial)})


def _best_rate(task: Task, trial: Callable[[Task], float]) -> float:
    """Return the learning rate of the best trial; a checkpoint holds the results of each."""
    kept = Checkpoint(task.checkpoint.folder / "trials")
    found = kept.load()
    results: list[float | str] = [] if found is None else found[1]["results"]
    rates: list[float] = [factor * task.options["lr"] for factor in RATES]
    for rate in rates[len(results) :]:
        try:
            results.append(trial(_trial_task(task, rate)))
        except DivergedError as error:
            results.append(f"lr {rate:.3g}, {error}")
        kept.save({}, {"results": results})
    tried = zip(results, rates, strict=True)
    scored = [(result, rate) for result, rate in tried if isinstance(result, float)]
    if not scored:
        faults = "; ".join(map(str, results))
        raise DivergedError(f"every trial of the strong budget failed: {faults}")
    return min(scored, key=itemgetter(0))[1]


def _trial_task(task: Task, rate: float) -> Task:
    epochs = max(1, task.options["epochs"] // EPOCHS)
    folder = task.checkpoint.folder / f"trial_{rate:.3g}"
    return replace(
        task,
        options=budgeted(task.options) | {"epochs": epochs, "lr": rate},
        title=f"{task.title}, trial of lr {rate:.3g}",
        checkpoint=Checkpoint(folder, task.checkpoint.interval),
    )


def untrained(
    options: Mapping[str, Any],
    feature_shape: Sequence[int],
    image_shape: tuple[int, int, int],
    class_maps: int = 0,
    *,
    masked: bool = False,
) -> Decoder | CorrectedDecoder:
    """Return a new decoder for the attack's options, with weights from torch's random state.

    `class_maps` and `masked` are those of `CorrectedDecoder`.

    Raises:
        ValueError: if the features are larger than the images.
    """
    ratios = [big / small for big, small in zip(image_shape[1:], feature_shape[1:], strict=True)]
    if min(ratios) < 1:
        raise ValueError(
            f"decoder: features of {tuple(feature_shape[1:])} are larger than images of"
            f" {image_shape[1:]}; cut the network where they are not"
        )
    size = options["blocks"], options["width"], math.ceil(math.log2(max(ratios)))
    if options["kind"] == "decoder":
        return CorrectedDecoder(tuple(feature_shape), image_shape, *size, class_maps, masked=masked)
    return Decoder(feature_shape[0], image_shape, *size)


def load_decoder(
    state: Mapping[str, Tensor],
    options: Mapping[str, Any],
    feature_shape: Sequence[int],
    image_shape: tuple[int, int, int],
    *,
    masked: bool = False,
) -> nn.Module:
    """Return the trained decoder of an attack, in eval mode, frozen and on the CPU.

    `options` are those of the attack, and `state` the tensors of its `Outcome`, which say whether
    it undoes a coding; `masked` is that of `CorrectedDecoder`.

    Raises:
        RuntimeError: if the tensors do not fit such a decoder.
    """
    model = untrained(budgeted(options), feature_shape, image_shape, masked=masked)
    if "uncoding.mean" in state:
        model.register_module("uncoding", Uncoding(len(state["uncoding.mean"])))
    model.load_state_dict(state)
    return model.to(memory_format=torch.channels_last).eval().requires_grad_(False)


def late_improvement(val: Sequence[float]) -> float:
    """Return the relative fall of the lowest error in the last tenth of the epochs.

    An attack has converged if this is at most `TOLERANCE` (docs/metrics.md). It is 0 if no epoch
    there is the best so far, or if the error was 0 before, and infinite with fewer than two epochs.

    >>> round(late_improvement([4.0, 2.0, 1.5]), 6)
    0.25
    """
    if len(val) < 2:
        return math.inf
    before = min(val[: -math.ceil(len(val) / 10)])
    return 1 - min(val) / before if before > 0 else 0.0
