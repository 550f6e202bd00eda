"""The benchmarks at a small size: every figure is there, and fits what is counted by hand."""

import copy
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from benchmarks import measure, others, plain, surrogates
from benchmarks.__main__ import PARTS, table
from benchmarks.measure import compare, flops, rate
from benchmarks.others import decoder_flops
from benchmarks.setting import CLASSES, NOISE_STD, Scale, features, images, split_model
from benchmarks.training import DEFENCES, step_flops
from cemlib.cli import main
from cemlib.models.decoder import ResBlock
from cemlib.surrogates import SURROGATES, build
from cemlib.surrogates.clustering import Clustering
from cemlib.training.step import fork

TINY = Scale(
    network="small",
    image_size=16,
    batch=64,
    attack_batch=16,
    samples=400,
    steps=1,
    rounds=1,
    seconds=1e-3,
    images=100,
    workers=0,
)


@pytest.fixture(scope="module")
def found() -> dict[str, list[dict[str, Any]]]:
    """All parts; only the training that is timed from its start runs in this process."""

    def run_here(arguments: list[str]) -> None:
        assert arguments[0] == "-c" or main(arguments[2:]) == 0

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(others, "COMMANDS", {})  # seconds each
        patch.setattr(others, "_run", run_here)
        patch.setitem(measure.SIDES, "cpu", 256)
        patch.setitem(surrogates.VARIANTS, "gmm, full covariance", ("gmm", {}))
        patch.setattr("benchmarks.training.cpu_count", lambda: 1)  # one training at once
        return {name: list(part(TINY)) for name, (part, _) in PARTS.items()}


def test_every_part_is_measured(found: dict[str, list[dict[str, Any]]]) -> None:
    names = {part: {row["name"] for row in rows} for part, rows in found.items()}
    assert {f"step, {defence}" for defence in DEFENCES} < names["training"]
    assert set(SURROGATES) < names["surrogates"]
    assert {name for name in SURROGATES if SURROGATES[name].refit} < names["fits"]
    assert names["decoders"] == {"step, decoder", "step, residual"}
    for part, rows in found.items():
        assert table(rows).count("\n") == len(rows) + 1, part
        assert all(0 < row["ours_fastest_ms"] <= row["ours_ms"] for row in rows)
        assert any(row["times_faster"] for row in rows), part


def passes(model: nn.Module, shape: tuple[int, ...]) -> list[int]:
    """Count the operations of every layer's forward pass by hand: 2 for each weight's each use."""
    counted: list[int] = []

    def note(layer: nn.Module, inputs: Any, output: torch.Tensor) -> None:
        many = inputs[0] if isinstance(layer, nn.ConvTranspose2d) else output
        counted.append(2 * layer.weight.numel() * many.numel() // len(layer.weight))

    for layer in model.modules():
        if isinstance(layer, nn.Conv2d | nn.ConvTranspose2d | nn.Linear):
            layer.register_forward_hook(note)
    model(torch.rand(shape))
    return counted


def test_operations_of_a_step_are_three_passes_less_the_images_gradient() -> None:
    """Forward, gradient of the weights, gradient of the inputs but for the first layer's."""
    scale = Scale(batch=2)
    counted = passes(split_model(scale), (2, 3, 32, 32))
    assert step_flops(scale) == 3 * sum(counted) - counted[0]


def test_operations_of_a_decoders_step_are_counted_alike() -> None:
    """The features need no gradient: neither does the input of the first block's shortcut."""
    scale = Scale(attack_batch=2)
    decoder, shape = others.new_decoder("residual", scale), split_model(scale).feature_shape
    first = next(layer for layer in decoder.modules() if isinstance(layer, ResBlock)).shortcut
    counted = [sum(passes(part, (2, *shape))) for part in (decoder, first)]
    assert decoder_flops("residual", scale) == 3 * counted[0] - counted[1]


def test_the_floor_is_operations_over_the_rate() -> None:
    left, right = torch.rand(20, 30), torch.rand(30, 40)
    operations = flops(lambda: left @ right)
    assert operations == 2 * 20 * 30 * 40
    row = compare("product", lambda: left @ right, TINY, operations=operations)
    assert row["floor_ms"] == pytest.approx(1e3 * operations / rate(TINY, "float32"))
    assert row["times_faster"] is None


def clusters(dim: int, samples: int) -> plain.Statistics:
    """Clusters of other features than the batch's, one of them without members."""
    found = plain.fit(*features(600, dim, "cpu"))
    found.weights[0] = torch.tensor([0.5, 0.5, 0.0, 0.0, 0.0])
    return plain.Statistics(found.means, found.weights, 0.3 * found.variances, samples)


def ours(found: plain.Statistics) -> Clustering:
    dim = found.means.shape[-1]
    surrogate = build("clustering", dim=dim, num_classes=CLASSES, noise_std=NOISE_STD)
    surrogate.num_train.fill_(found.samples)
    surrogate.load_statistics(found.means, found.weights, found.variances)
    return surrogate


@pytest.mark.parametrize("samples", [600, 60_000])  # the batch's variance alone, and blended
def test_the_plain_penalty_is_the_surrogates(samples: int) -> None:
    found = clusters(24, samples)
    z, y = features(64, 24, "cpu", seed=5)
    slow, fast = z.clone().requires_grad_(), z.clone().requires_grad_()
    values = plain.penalty(slow, y, found), ours(found)(fast, y)
    assert values[0] > 0.01
    torch.testing.assert_close(*values)
    (one,), (two,) = torch.autograd.grad(values[0], slow), torch.autograd.grad(values[1], fast)
    assert one.abs().max() > 1e-5
    torch.testing.assert_close(two, one, atol=1e-8, rtol=1e-4)


def test_scikit_learns_clusters_are_ours() -> None:
    """From the same centroids both end at the same ones."""
    z, y = features(800, 16, "cpu")
    begun = plain.fit(z[:400], y[:400])
    slow, fast = plain.fit(z, y, begun), ours(begun)
    fast.fit(z, y)
    torch.testing.assert_close(fast.means, slow.means, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(fast.weights, slow.weights)
    torch.testing.assert_close(fast.variances, slow.variances, atol=1e-6, rtol=1e-4)


def test_two_backward_passes_give_the_gradients_of_one() -> None:
    model = split_model(TINY).train()
    found, batch = clusters(8 * 4 * 4, 6_000), images(TINY.batch, TINY)
    pixels, noise = batch.images / 255, NOISE_STD * torch.randn(TINY.batch, *model.feature_shape)

    slow = copy.deepcopy(model)
    still = torch.optim.SGD(slow.parameters(), lr=0.0)
    torch.manual_seed(1)  # of the head's dropout, where it has any
    loss, _ = plain.step(slow, found, pixels, batch.labels, noise, still)

    torch.manual_seed(1)
    clean, branch, norms = fork(model.encoder(pixels), plain.LAMBDA_EFF)
    task = F.cross_entropy(model.head(clean + noise), batch.labels)
    (task + ours(found)(branch, batch.labels)).backward()

    assert loss == pytest.approx(task.item(), rel=1e-5)
    assert norms[1] > 0.01 * norms[0]  # the surrogate's part can be seen in the sum
    for one, two in zip(model.parameters(), slow.parameters(), strict=True):
        torch.testing.assert_close(two.grad, one.grad, atol=1e-6, rtol=1e-3)
