"""The surrogates' formulae again, in float64, one class, sample and cluster at a time.

Written from the mathematics alone and in the plainest form, to compare the batched code with. Each
formula is a function of features z, labels y, parameters by name, the slots' noise and the options.
"""

import math

import torch
from surrogate_batches import NOISE_STD
from torch import Tensor

FLOOR = 1e-6


def classes_of(y: Tensor, smallest: int = 1) -> list[list[int]]:
    """Sample positions of each class with at least `smallest` samples, in class order."""
    labels = y.tolist()
    members = {c: [i for i, label in enumerate(labels) if label == c] for c in sorted(set(labels))}
    return [positions for positions in members.values() if len(positions) >= smallest]


def layer_norm(row: Tensor) -> Tensor:
    mean = sum(row) / len(row)
    variance = sum((value - mean) ** 2 for value in row) / len(row)
    return (row - mean) / (variance + 1e-5).sqrt()


def softmax(values: list[Tensor]) -> list[Tensor]:
    largest = max(float(value.detach()) for value in values)
    raised = [(value - largest).exp() for value in values]
    return [value / sum(raised) for value in raised]


def moments(rows: list[Tensor], weights: list[Tensor]) -> tuple[Tensor, Tensor]:
    mean = sum(weight * row for weight, row in zip(weights, rows, strict=True))
    return mean, sum(w * (row - mean) ** 2 for w, row in zip(weights, rows, strict=True))


TAU = max(0.125 * NOISE_STD**2, 1e-8) + 1e-6


def attention_variance(state: dict[str, Tensor], rows: list[Tensor]) -> Tensor:
    V, U, w = (state[f"{name}.weight"] for name in "VUw")
    scores = [(w[0] * (V @ row).tanh() * (1 / (1 + (-(U @ row)).exp()))).sum() for row in rows]
    return moments(rows, softmax(scores))[1]


def dispersion(v: Tensor, settings) -> Tensor:
    """Penalty of the variances of a class."""
    v = v.sum().reshape(1) if settings.variance == "trace" else v
    each = [value if value > FLOOR else value.detach() * 0 + FLOOR for value in v]
    if settings.gate == "log":
        each = [torch.relu((value + 1e-6).log() - math.log(TAU)) for value in each]
    return sum(each) / len(each)


def gated(z, y, state, noise, settings) -> Tensor:  # noqa: ARG001 - it draws nothing
    total, mass = z.sum() * 0, 0.0
    for positions in classes_of(y, 2):
        plain = settings.moments == "raw"
        rows = [z[i] if plain else layer_norm(z[i]) for i in positions]
        p = len(positions) / len(y)
        total = total + p * dispersion(attention_variance(state, rows), settings)
        mass += p
    return settings.scale * total / mass if mass else total


def linear(state: dict[str, Tensor], name: str, x: Tensor) -> Tensor:
    bias = state.get(f"{name}.bias")
    return state[f"{name}.weight"] @ x + (0 if bias is None else bias)


def affine_norm(state: dict[str, Tensor], name: str, x: Tensor) -> Tensor:
    return layer_norm(x) * state[f"{name}.weight"] + state[f"{name}.bias"]


def two_layers(state: dict[str, Tensor], name: str, x: Tensor) -> Tensor:
    return linear(state, f"{name}.2", torch.relu(linear(state, f"{name}.0", x)))


def gru(state: dict[str, Tensor], name: str, x: Tensor, hidden: Tensor) -> Tensor:
    inputs = state[f"{name}.weight_ih"] @ x + state[f"{name}.bias_ih"]
    memory = state[f"{name}.weight_hh"] @ hidden + state[f"{name}.bias_hh"]
    (ir, iu, inew), (hr, hu, hnew) = inputs.chunk(3), memory.chunk(3)
    update = torch.sigmoid(iu + hu)
    return (1 - update) * torch.tanh(inew + torch.sigmoid(ir + hr) * hnew) + update * hidden


def slots_of(state, tokens: list[Tensor], noise: Tensor, iterations: int) -> list[Tensor]:
    slots = [state["rounds.mean"][0] + state["rounds.log_std"][0].exp() * row for row in noise]
    keys = [linear(state, "rounds.key", token) for token in tokens]
    values = [linear(state, "rounds.value", token) for token in tokens]
    for _ in range(iterations):
        queries = [
            linear(state, "rounds.query", affine_norm(state, "rounds.norm_slots", slot))
            for slot in slots
        ]
        shares = [softmax([key @ query / len(key) ** 0.5 for query in queries]) for key in keys]
        for k, slot in enumerate(slots):
            mass = sum(share[k] for share in shares)
            taken = sum(s[k] / mass * value for s, value in zip(shares, values, strict=True))
            slot = gru(state, "rounds.update", taken, slot)
            normed = affine_norm(state, "rounds.norm_residual", slot)
            slots[k] = slot + two_layers(state, "rounds.residual", normed)
    return slots


def cross_attention(state, token: Tensor, slots: list[Tensor], heads: int) -> Tensor:
    packed, bias = "refine.attention.in_proj_weight", "refine.attention.in_proj_bias"
    parts = list(zip(state[packed].chunk(3), state[bias].chunk(3), strict=True))
    (wq, bq), (wk, bk), (wv, bv) = parts
    query, width = wq @ token + bq, len(token) // heads
    answer = []
    for head in range(heads):
        part = slice(head * width, (head + 1) * width)
        scores = [query[part] @ (wk @ slot + bk)[part] / width**0.5 for slot in slots]
        answer.append(
            sum(s * (wv @ slot + bv)[part] for s, slot in zip(softmax(scores), slots, strict=True))
        )
    return linear(state, "refine.attention.out_proj", torch.cat(answer))


def refined(state, token: Tensor, slots: list[Tensor], heads: int) -> Tensor:
    token = token + state["refine.a1"].tanh() * cross_attention(state, token, slots, heads)
    return token + state["refine.a2"].tanh() * two_layers(state, "refine.network", token)


def slot_spread(state, tokens, noise, settings) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Weight, mean and variance of the tokens of a class about each of its slots."""
    slots = slots_of(state, tokens, noise, settings.iterations)
    outputs = [refined(state, token, slots, settings.heads) for token in tokens]
    cosines = [[token @ s / (token.norm() * s.norm()) for s in slots] for token in tokens]
    r = [softmax([state["beta"] * cosine for cosine in row]) for row in cosines]
    masses = [sum(row[k] for row in r) for k in range(len(slots))]
    powers = [(mass / len(tokens)) ** getattr(settings, "sharpening", 2.5) for mass in masses]
    return [
        (powers[k] / sum(powers), *moments(outputs, [row[k] / mass for row in r]))
        for k, mass in enumerate(masses)
    ]


def slot_hinge(state, mean: Tensor, v: Tensor) -> Tensor:
    v = torch.where(v > FLOOR, v, torch.full_like(v, FLOOR))
    g = torch.sigmoid(two_layers(state, "gate.network", affine_norm(state, "gate.norm", v.log())))
    snr = 1.0
    if "gate.b_snr" in state:
        snr = torch.sigmoid(state["gate.b_snr"] * (v / (mean**2 + 1e-6) - state["gate.t_snr"]))
    b_s = (1 + state["gate.raw_b_s"].exp()).log()
    excess = v.log() - math.log(TAU) - state["gate.m0"]
    return g * snr * (1 + (b_s * excess).exp()).log() / (b_s + 1e-6)


def slot(z, y, state, noise, settings) -> Tensor:
    total, mass = z.sum() * 0, 0.0
    ordered = sorted(classes_of(y, 3), key=len, reverse=True)  # stable: ties in class order
    for positions, start in zip(ordered, noise, strict=False):
        tokens = [layer_norm(z[i]) for i in positions]
        found = slot_spread(state, tokens, start, settings)
        spread = sum(weight * slot_hinge(state, mean, v).mean() for weight, mean, v in found)
        p = len(positions) / len(y)
        gate = torch.sigmoid(state["a_c"] * (p - state["b_c"]))
        total, mass = total + p * gate * spread, mass + p
    return getattr(settings, "slot_scale", settings.scale) * total / mass if mass else total


def part(state: dict[str, Tensor], name: str) -> dict[str, Tensor]:
    """A branch's parameters by their names in the branch."""
    return {key.removeprefix(f"{name}."): p for key, p in state.items() if key.startswith(name)}


def parallel(z, y, state, noise, settings) -> Tensor:
    first = gated(z, y, part(state, "gated"), noise, settings)
    second = slot(z, y, part(state, "slot"), noise, settings)
    shares = softmax(list(state["logits"]))
    return shares[0] * first + shares[1] * second


def shortcut(z, y, state, noise, settings) -> Tensor:
    total, mass, starts = z.sum() * 0, 0.0, iter(noise)
    for positions in sorted(classes_of(y, 2), key=len, reverse=True):  # stable, as slot's rows
        tokens = [layer_norm(z[i]) for i in positions]
        rows = [z[i] for i in positions] if settings.moments == "raw" else tokens
        v = attention_variance(part(state, "gated"), rows)
        if len(positions) >= 3:
            found = slot_spread(part(state, "slot"), tokens, next(starts), settings)
            v = v + state["a"].tanh() * sum(weight * variance for weight, _, variance in found)
        p = len(positions) / len(y)
        total, mass = total + p * dispersion(v, settings), mass + p
    return settings.scale * total / mass if mass else total
