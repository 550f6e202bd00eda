"""Stacked networks against single ones of torch; weights and loss against plain loops."""

import itertools
import math
from typing import Any

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from labelling_study import tiny
from torch import Tensor, nn

from cemlib.config.errors import ConfigError
from cemlib.config.labelling import LocalTrainConfig, NetworkConfig
from cemlib.data.prepare import prepare
from cemlib.labelling import learning
from cemlib.labelling.experiment import carry_out
from cemlib.labelling.loss import certainty, posterior
from cemlib.labelling.participants import METHODS, Participants

SHAPE, CLASSES, M = (1, 8, 8), 10, 3
PARTICIPANTS = Participants(tiny(), 0, prepare(tiny().data))
NETWORKS = [NetworkConfig(kind="mlp", width=6), NetworkConfig(kind="cnn", width=3)]


def module(network: NetworkConfig, weights: learning.Weights) -> nn.Sequential:
    """The same network by torch's layers."""
    width = network.width or 0
    mlp = nn.Flatten(), nn.Linear(64, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()
    cnn = nn.Conv2d(1, width, 3, 2, 1), nn.ReLU(), nn.Conv2d(width, 2 * width, 3, 2, 1), nn.ReLU()
    layers, last = (mlp, width) if network.kind == "mlp" else (cnn, 8 * width)
    net = nn.Sequential(*layers, nn.Flatten(), nn.Linear(last, CLASSES))
    net.load_state_dict(dict(zip(net.state_dict(), weights, strict=True)))
    return net


def stacked(network: NetworkConfig) -> list[learning.Weights]:
    streams = (torch.Generator().manual_seed(seed) for seed in range(M))
    return [learning.small_weights(network, SHAPE, CLASSES, stream) for stream in streams]


def lessons(count: int = M) -> tuple[Tensor, list[learning.TrainingSet]]:
    """Images and, for each network, its own part of them; the parts differ in length."""
    stream = torch.Generator().manual_seed(9)
    images, labels = torch.randn(40, *SHAPE, generator=stream), torch.arange(40) % CLASSES
    parts = [torch.arange(10 * i, 10 * i + 8 + i) for i in range(count)]
    return images, [
        learning.TrainingSet(p, labels[p], torch.rand(len(p), generator=stream)) for p in parts
    ]


@pytest.mark.parametrize("network", NETWORKS, ids=lambda n: n.kind)
def test_a_stack_computes_what_its_networks_do(network: NetworkConfig) -> None:
    singles, images = stacked(network), torch.randn(M, 5, *SHAPE)
    networks = learning.Stack(singles)
    found = networks(images)
    shared = networks(images[:1])
    many = torch.randn(300, *SHAPE)  # more than one chunk
    classes = learning.classify(networks, many)
    for i, weights in enumerate(singles):
        net = module(network, weights)
        assert torch.allclose(found[i], net(images[i]), atol=1e-5)
        assert torch.allclose(shared[i], net(images[0]), atol=1e-5)
        assert torch.equal(classes[i], net(many).argmax(1))


@pytest.mark.parametrize("rule", ["adam", "sgd"])
@pytest.mark.parametrize("network", NETWORKS, ids=lambda n: n.kind)
def test_each_network_learns_as_torch_would_teach_it(network: NetworkConfig, rule: Any) -> None:
    settings = LocalTrainConfig(optimiser=rule, steps=10, batch_size=4, lr=1e-2, weight_decay=1e-2)
    singles, (images, parts) = stacked(network), lessons()
    chances = torch.rand(10, M, 4, generator=torch.Generator().manual_seed(3))
    networks = learning.Stack(singles)
    losses = learning.learn(networks, images, parts, chances, settings)
    for i, part in enumerate(parts):
        net = module(network, singles[i])
        optimiser: torch.optim.Optimizer = (
            torch.optim.Adam(net.parameters(), weight_decay=1e-2)
            if rule == "adam"
            else torch.optim.SGD(net.parameters(), lr=1.0, momentum=0.9, weight_decay=1e-2)
        )
        for step in range(10):
            optimiser.param_groups[0]["lr"] = 1e-2 * (1 - 0.9 * step / 10)
            at = (chances[step, i] * len(part.labels)).long()
            single = nn.functional.cross_entropy(
                net(images[part.positions[at]]), part.labels[at], reduction="none"
            )
            loss = (part.weights[at] * single).mean()
            assert loss.item() == pytest.approx(losses[step, i].item(), rel=1e-3)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        for ours, theirs in zip(networks.parameters(), net.parameters(), strict=True):
            assert torch.allclose(ours[i], theirs, atol=2e-4)


def published(kind: Any, seed: int = 1) -> nn.Module:
    stream = torch.Generator().manual_seed(seed)
    return learning.start(NetworkConfig(kind=kind), (3, 32, 32), CLASSES, [stream])


@pytest.mark.parametrize(
    ("kind", "parameters"), [("vgg11", 9_231_114), ("vgg16", 14_728_266), ("resnet18", 11_181_642)]
)
def test_the_published_networks_have_their_size(kind: str, parameters: int) -> None:
    """VGG with batch norm and one linear layer, as is usual for CIFAR-10; ResNet18, 10 classes."""
    network = published(kind)
    assert sum(p.numel() for p in network.parameters()) == parameters
    assert network.eval()(torch.randn(1, 2, 3, 32, 32)).shape == (1, 2, CLASSES)


def test_a_published_network_learns_from_its_own_stream() -> None:
    one, same, other = (published("resnet18", seed) for seed in (1, 1, 2))
    first, second, third = (next(net.parameters()) for net in (one, same, other))
    assert torch.equal(first, second)
    assert not torch.equal(first, third)
    lesson = learning.TrainingSet(torch.arange(6), torch.arange(6), torch.ones(6))
    settings = LocalTrainConfig(optimiser="sgd", steps=10, batch_size=6, lr=1e-3)
    images, chances = torch.randn(6, 3, 32, 32), torch.rand(10, 1, 6)
    losses = learning.learn(one, images, [lesson], chances, settings)
    assert losses.shape == (10, 1)
    assert losses[-3:].mean() < losses[:3].mean()
    assert learning.classify(one, images).shape == (1, 6)


def test_no_image_is_in_two_sets() -> None:
    sets = [PARTICIPANTS.own(who, 30).positions for who in range(4)] + [PARTICIPANTS.queries]
    every = torch.cat(sets)
    assert len(every.unique()) == len(every) == 4 * 30 + 12
    fewer = PARTICIPANTS.own(2, 20).positions
    assert torch.equal(fewer, sets[2][:20])
    other = Participants(tiny(), 1, PARTICIPANTS.data)
    assert not torch.equal(other.queries, PARTICIPANTS.queries)


def test_a_refused_query_is_left_out() -> None:
    own = PARTICIPANTS.own(0, 20)
    counts = torch.full((12, 10), -1.0).double()
    counts[0], counts[3, 7] = 0.0, 2.0
    taught = own.joined(PARTICIPANTS.answered(counts, 1.2, "iel"))
    assert taught.positions[20:].tolist() == [int(PARTICIPANTS.queries[3])]
    assert (taught.labels[20:].tolist(), taught.weights.tolist()) == ([7], [1.0] * 21)
    assert len(PARTICIPANTS.answered(counts - 9, 1.2, "constant").labels) == 0


def test_weights_are_one_their_certainty_or_its_mean() -> None:
    counts = torch.rand(12, 10, generator=torch.Generator().manual_seed(0)).double()
    posterior = Participants(tiny(certainty="posterior"), 0, PARTICIPANTS.data)
    certain = []
    for asked in (PARTICIPANTS, posterior):
        capc, iel, constant = (asked.answered(counts, 1.2, w).weights for w in METHODS)
        assert (capc == 1).all()
        assert iel.std() > 0
        assert torch.allclose(constant, iel.mean().expand(12))
        certain.append(iel)
    assert not torch.allclose(*certain)
    assert (posterior.answered(counts, None, "iel").weights == 1).all()


def test_masks_too_narrow_for_the_noise_are_refused_before_anybody_learns() -> None:
    participants = Participants(tiny(encryption__mask_bits=8), 0, PARTICIPANTS.data)
    with pytest.raises(ConfigError, match=r"do not fit together: noise_std: 4\.03.*mask_bits"):
        carry_out(participants, 20, lambda _name, work: work())


def test_more_images_than_there_are_is_refused() -> None:
    few = prepare(tiny(data__train_limit=120).data)
    with pytest.raises(ConfigError, match=r"need 172 .* the data have 108; .*data.train_limit"):
        Participants(tiny(images=[40]), 0, few)


def weight_by_loop(row: list[float]) -> float:
    clipped = [max(0.0, value) for value in row]
    shares = [value / sum(clipped) for value in clipped]
    return 1 + sum(p * math.log(p) for p in shares if p > 0) / math.log(len(row))


@settings(deadline=None, max_examples=60)
@given(st.lists(st.floats(-20, 20), min_size=2, max_size=12).filter(lambda row: max(row) > 1e-3))
@example([9.2, 3.1, -0.4, 2.1])
@example([4.0, 4.0, 4.0, 4.0])
@example([0.0, 0.0, 12.5, -3.0])
def test_weights_are_those_of_the_formula_and_in_the_unit_interval(row: list[float]) -> None:
    weight = float(certainty(torch.tensor([row], dtype=torch.float64)))
    assert 0 <= weight <= 1
    assert weight == pytest.approx(weight_by_loop(row), abs=1e-12)


def posterior_by_enumeration(row: list[float], participants: int, sigma: float) -> float:
    answer, most, every = row.index(max(row)), 0.0, 0.0
    for tally in itertools.product(range(participants + 1), repeat=len(row)):
        if sum(tally) == participants:
            square = sum((c - n) ** 2 for c, n in zip(row, tally, strict=True))
            every += (chance := math.exp(-square / (2 * sigma**2)))
            most += chance * (tally[answer] == max(tally))
    return most / every


@pytest.mark.parametrize("sigma", [0.5, 2.0, 8.0])
def test_the_posterior_is_that_of_all_tallies(sigma: float) -> None:
    counts = 8 * torch.rand(6, 4, generator=torch.Generator().manual_seed(0)).double() - 1
    expected = [posterior_by_enumeration(row, 6, sigma) for row in counts.tolist()]
    assert posterior(counts, 6, sigma).tolist() == pytest.approx(expected, rel=1e-9)
    assert posterior(counts, 6, 0.0).tolist() == [1.0] * 6
