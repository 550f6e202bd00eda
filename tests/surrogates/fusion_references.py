"""The fusions' formulae again, in float64, one class, sample and slot at a time.

And fusions small enough to be compared with them, and their branches as surrogates of their own.
"""

import math

import torch
from surrogate_references import (
    FLOOR,
    ceiling,
    classes_of,
    gated,
    layer_norm,
    moments,
    refined,
    slot,
    slots_of,
    softmax,
)
from torch import Tensor

from cemlib.surrogates.gated import GatedAttention

State = dict[str, Tensor]
NOISE_STD = 0.025
SMALL = {"slots": 3, "iterations": 2, "heads": 2}


def built(kind, num_classes, dim, seed=0, **options):
    torch.manual_seed(seed)
    options = SMALL | {"hidden": 7} | options
    return kind(dim=dim, num_classes=num_classes, noise_std=NOISE_STD, **options)


def alone(fusion, kind, **options):
    """A surrogate of one branch's kind with that branch's parameters."""
    common = {"dim": fusion.dim, "num_classes": fusion.num_classes, "noise_std": NOISE_STD}
    surrogate = kind(**common, **options)
    branch = fusion.gated if kind is GatedAttention else fusion.slot
    surrogate.load_state_dict(branch.state_dict())
    return surrogate


def of_seed(surrogate, z, y, seed=11):
    surrogate.reseed(seed)
    return surrogate(z, y)


def part(state: State, name: str) -> State:
    """A branch's parameters by their names in the branch."""
    return {key.removeprefix(f"{name}."): p for key, p in state.items() if key.startswith(name)}


def parallel(z, y, state: State, noise, *, scales, attention, competition, noise_std) -> Tensor:
    weights = (state[f"gated.{name}.weight"] for name in "VUw")
    first = gated(z, y, *weights, noise_std=noise_std, scale=scales[0], **attention)
    second = slot(
        z, y, part(state, "slot"), noise, noise_std=noise_std, scale=scales[1], **competition
    )
    shares = softmax(list(state["logits"]))
    return shares[0] * first + shares[1] * second


def attention_variance(state: State, rows: list[Tensor]) -> Tensor:
    V, U, w = (state[f"gated.{name}.weight"] for name in "VUw")
    scores = [(w[0] * (V @ row).tanh() * torch.sigmoid(U @ row)).sum() for row in rows]
    return moments(rows, softmax(scores))[1]


def slot_variance(state: State, tokens: list[Tensor], noise, *, iterations, heads) -> Tensor:
    """`sum_k w_k v_k` in each dimension."""
    slots = slots_of(state, tokens, noise, iterations)
    outputs = [refined(state, token, slots, heads) for token in tokens]
    cosines = [[token @ s / (token.norm() * s.norm()) for s in slots] for token in tokens]
    r = [softmax([state["beta"] * cosine for cosine in row]) for row in cosines]
    masses = [sum(row[k] for row in r) for k in range(len(slots))]
    powers = [mass**2.5 for mass in masses]
    total = torch.zeros_like(tokens[0])
    for k, mass in enumerate(masses):
        v = moments(outputs, [row[k] / mass for row in r])[1]
        total = total + powers[k] / sum(powers) * v
    return total


def shortcut(z, y, state: State, noise, *, scale, attention, competition, noise_std) -> Tensor:
    total, mass, slots = z.sum() * 0, 0.0, part(state, "slot")
    starts = iter(noise)
    for positions in sorted(classes_of(y, 2), key=len, reverse=True):  # stable, as slot's rows
        tokens = [layer_norm(z[i]) for i in positions]
        rows = tokens if attention["normalise"] else [z[i] for i in positions]
        v = attention_variance(state, rows)
        if len(positions) >= 3:
            v = v + state["a"].tanh() * slot_variance(slots, tokens, next(starts), **competition)
        v = v.sum().reshape(1) if attention["trace"] else v
        each = [value if value > FLOOR else value.detach() * 0 + FLOOR for value in v]
        if attention["gate"] == "log":
            tau = ceiling(noise_std)
            each = [torch.relu((value + 1e-6).log() - math.log(tau)) for value in each]
        p = len(positions) / len(y)
        total, mass = total + p * sum(each) / len(each), mass + p
    return scale * total / mass if mass else total
