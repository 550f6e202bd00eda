"""Federated averaging against centralised descent and clients one by one; splits and faults."""

import math
from copy import deepcopy
from functools import partial
from operator import itemgetter

import pytest
import torch
from inversion_scenes import class_means, flat_network
from tiny_federation import study_of
from torch.utils._pytree import tree_map

from cemlib.config.federated import DpSgd, MaskConfig, Variant
from cemlib.data import DataError
from cemlib.data.prepared import Prepared
from cemlib.federated import setting
from cemlib.federated.client import Inputs, step_inputs, step_of, train_at_once
from cemlib.federated.drawing import Draws, ask
from cemlib.federated.gan import Generator
from cemlib.federated.gan_training import Pseudo
from cemlib.federated.network import BIAS, WEIGHT, build, stack, weights_of
from cemlib.federated.private import _ORDERS
from cemlib.federated.rounds import Federation, aggregate
from cemlib.federated.setting import partition
from cemlib.federated.training import _epsilon, _scores
from cemlib.numerics.divergence import DivergedError


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def pseudo(clients: int) -> Pseudo:
    torch.manual_seed(1)
    nets = [Generator((1, 8, 8), 10, 16, 8) for _ in range(clients)]
    return Pseudo(nets[0], stack([{n: t.detach() for n, t in g.named_parameters()} for g in nets]))


def federation(data: Prepared, variant: str = "none", **changes: object) -> Federation:
    study = study_of(**changes)
    chosen = study.variants[variant]
    made = pseudo(study.clients.number) if chosen.mixing is not None else None
    return Federation(study, chosen, data, made, seed=0)


def test_weights_that_the_last_step_spoils_are_a_divergence(data: Prepared):
    """The answers are finite, since their losses were computed before the step."""
    train = {"rounds": 1, "local_steps": 2, "batch_size": 8, "lr": 1e6}
    wild = federation(data, train=train)
    with pytest.raises(DivergedError, match="epoch 1: val_loss is nan"):
        wild.epoch(1)


def test_one_full_batch_step_of_all_clients_is_a_step_of_centralised_descent():
    net = build("lenet", num_classes=4, image_shape=(1, 8, 8)).double()
    x = torch.rand(37, 1, 8, 8, dtype=torch.float64, generator=generator())
    y = torch.randint(4, (37,), generator=generator())
    weights, lr, parts = weights_of(net), 0.7, [slice(0, 5), slice(5, 25), slice(25, 37)]
    step = step_of(net, Variant())
    answers = []
    for part in parts:
        changes, _ = train_at_once(step, weights, [(x[None, part], y[None, part])], lr)
        answers.append({name: tensor[0] for name, tensor in changes.items()})
    found = aggregate(weights, stack(answers), torch.tensor([5, 20, 12]))
    torch.nn.functional.cross_entropy(net(x), y).backward()
    for name, tensor in net.named_parameters():
        expected = (tensor - lr * tensor.grad).detach()
        torch.testing.assert_close(found[name], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "variant",
    [
        Variant(),
        Variant(mask=MaskConfig(beta=2, images=3)),
        Variant(mask=MaskConfig(alpha=0.1, order="soteria")),
        Variant(dp_sgd=DpSgd(clip=0.5, noise_multiplier=0.3)),
    ],
    ids=["plain", "masked", "soteria", "private"],
)
def test_clients_at_once_are_clients_one_by_one(variant):
    net = build("lenet", num_classes=4, image_shape=(1, 8, 8)).double()
    weights, shape = weights_of(net), (3, 2, 5)
    x = torch.rand(*shape, 1, 8, 8, dtype=torch.float64, generator=generator())
    y = torch.randint(4, shape, generator=generator())
    work = step_inputs(net, variant, x, y, [Draws(0, client, 1) for client in range(3)])
    step = step_of(net, variant)
    at_once, losses = train_at_once(step, weights, work, 0.3)
    one_by_one, same = train_one_by_one(step, weights, work, 0.3)
    torch.testing.assert_close(losses, same, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(at_once, one_by_one, rtol=1e-10, atol=1e-12)


def train_one_by_one(step, weights, work: list[Inputs], lr: float):
    """Changes and losses of all clients, one after the other and without stacking."""
    changes, losses = [], []
    for client in range(3):
        trained, values = dict(weights), []
        for inputs in work:
            gradient, value = step(trained, *tree_map(itemgetter(client), inputs))
            trained = {name: w - lr * gradient[name] for name, w in trained.items()}
            values.append(value)
        changes.append({name: trained[name] - w for name, w in weights.items()})
        losses.append(torch.stack(values))
    return stack(changes), torch.stack(losses)


@pytest.mark.parametrize("variant", ["none", "both", "dp_sgd"])
def test_rounds_lower_the_loss_and_count_what_happened(data, variant):
    found = federation(data, variant, train={"rounds": 6, "local_steps": 8})
    rows = [found.epoch(number) for number in range(1, 7)]
    assert [row["epoch"] for row in rows] == list(range(1, 7))
    assert rows[-1]["val_loss"] < rows[0]["val_loss"]
    net = deepcopy(found.net).double()
    net.load_state_dict(found.weights)
    logits, labels = net(data.val.images.double() / 255), data.val.labels
    loss = torch.nn.functional.cross_entropy(logits, labels).item()
    assert rows[-1]["val_loss"] == pytest.approx(loss, rel=1e-4)
    assert rows[-1]["val_top1"] == (logits.argmax(1) == labels).double().mean().item()
    answering = [len(ask(found.study.clients, 0, row["epoch"])[1]) for row in rows]
    assert [row["asked"] for row in rows] == [3] * 6
    assert [row["dropped"] for row in rows] == [3 - count for count in answering]
    assert sum(row["dropped"] for row in rows) > 0
    size = 4 * sum(w.numel() for w in found.weights.values())
    assert [row["bytes_up"] for row in rows] == [size * count for count in answering]


def test_test_and_validation_images_have_scores_of_their_own(data, monkeypatch):
    """Of the nearest class mean, which is a linear network, in parts of which the last is short."""
    monkeypatch.setattr("cemlib.federated.rounds.CHUNK", 16)
    found, net, means = federation(data), flat_network(), 2 * class_means().flatten(1) - 1
    net.load_state_dict({WEIGHT: 2 * means, BIAS: -means.square().sum(1)})
    found.net, found.weights = net.float(), weights_of(net)
    scores = _scores(found)
    for prefix, split in (("", data.test), ("val_", data.val)):
        pixels = 2 * split.images.flatten(1).double() / 255 - 1
        apart = torch.cdist(pixels, means.double()).square()
        loss = torch.nn.functional.cross_entropy(-apart, split.labels).item()
        assert scores[f"{prefix}loss"] == pytest.approx(loss, rel=1e-4)
        assert scores[f"{prefix}top1"] == (apart.argmin(1) == split.labels).double().mean().item()


def test_an_answer_that_is_not_finite_is_excluded_and_the_rest_is_averaged(data, monkeypatch):
    found = federation(data, clients={"dropout": 0.0, "participation": 1.0})
    changes, losses = found.answers(range(4), 1)
    kept = {name: change[[0, 2]].clone() for name, change in changes.items()}
    expected = aggregate(found.weights, kept, torch.tensor([len(found.clients[i]) for i in (0, 2)]))
    changes["classifier.bias"][1, 0], changes["classifier.weight"][3, 0, 0] = math.nan, math.inf
    losses[1], left = math.nan, losses[[0, 2, 3]].mean().item()
    monkeypatch.setattr(found, "answers", lambda *_: (changes, losses))
    row = found.epoch(1)
    assert row["excluded"] == 2
    assert row["train_loss"] == pytest.approx(left)
    torch.testing.assert_close(found.weights, expected, rtol=0, atol=0)


def test_a_round_in_which_all_drop_out_changes_nothing(data):
    found = federation(data, clients={"dropout": 0.999})
    before = {name: tensor.clone() for name, tensor in found.weights.items()}
    row = found.epoch(1)
    assert row["dropped"] == row["asked"]
    assert row["train_loss"] is None
    assert all(torch.equal(found.weights[name], tensor) for name, tensor in before.items())


def test_clients_are_asked_equally_often_and_drop_out_as_often_as_configured():
    """Within four standard deviations, in 2,000 rounds of 5 of 10 clients."""
    clients = study_of(clients={"number": 10, "participation": 0.5, "dropout": 0.3}).clients
    rounds = [ask(clients, 0, number) for number in range(1, 2001)]
    asked = torch.tensor([client for each, _ in rounds for client in each])
    assert len(asked) == 10_000
    assert (asked.bincount() - 1000).abs().max() < 4 * (2000 * 0.5 * 0.5) ** 0.5
    left = sum(len(answering) for _, answering in rounds)
    assert abs(left - 7000) < 4 * (10_000 * 0.3 * 0.7) ** 0.5


def test_epsilon_is_that_of_all_steps_of_the_smallest_client(data):
    accountants = pytest.importorskip("opacus.accountants")
    private = {"none": {"dp_sgd": {"noise_multiplier": 1.5}}}
    found = federation(data, variants=private, train={"rounds": 3, "local_steps": 4})
    own, smallest = accountants.RDPAccountant(), min(len(each) for each in found.clients)
    own.history = [(1.5, found.study.train.batch_size / smallest, 12)]
    delta = found.variant.dp_sgd.delta
    assert _epsilon(found) == pytest.approx(own.get_epsilon(delta, _ORDERS))


def test_epsilon_is_not_claimed_where_the_gans_saw_the_images_without_noise(data):
    noiseless = {"dp_sgd": {"noise_multiplier": 0.0}}
    variants = {"none": noiseless, "mixed": noiseless | {"mixing": {"lam": 0.5}}}
    found = {name: federation(data, name, variants=variants) for name in variants}
    assert _epsilon(found["none"]) == math.inf
    assert _epsilon(found["mixed"]) is None


def test_a_clients_update_does_not_depend_on_who_else_takes_part(data):
    found = federation(data, "both")
    together, _ = found.answers([0, 2, 3], 1)
    alone, _ = found.answers([2], 1)
    for name, tensor in together.items():
        torch.testing.assert_close(tensor[1], alone[name][0], rtol=1e-4, atol=1e-6)


def test_mixtures_are_the_share_of_the_image_and_the_clients_own_pseudo_image(data):
    found = federation(data, "both", variants={"none": {}, "both": {"mixing": {"beta": [2, 1]}}})
    plain = federation(data)
    (x, y), (clean, labels) = (
        map(partial(torch.stack, dim=1), zip(*each.work([1, 3], 2), strict=True))
        for each in (found, plain)
    )
    assert torch.equal(y, labels)
    mixing = found.variant.mixing
    for place, client in enumerate((1, 3)):
        share = Draws(0, client, 2).ratios(mixing, 16).view(2, 8, 1, 1, 1)
        e = Draws(0, client, 2).latents(16, 16)
        own = Generator((1, 8, 8), 10, 16, 8)
        own.load_state_dict({n: t[client] for n, t in found.pseudo.weights.items()})
        made = own(e, labels[place].flatten()).view_as(clean[place])
        expected = share * clean[place] + (1 - share) * made
        torch.testing.assert_close(x[place], expected.detach(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("pseudo", ["fresh", "fixed"])
def test_fixed_pseudo_images_give_an_image_the_same_mixture_in_every_round(data, pseudo):
    mixed = {"mixing": {"beta": [2, 1], "pseudo": pseudo}}
    found = federation(data, "both", variants={"none": {}, "both": mixed})
    plain, mixtures = federation(data), {}
    for number in (1, 2, 3, 4):
        steps = zip(found.work([1], number), plain.work([1], number), strict=True)
        for (ours, *_), (clean, *_) in steps:
            for mixture, image in zip(ours[0], clean[0], strict=True):
                mixtures.setdefault(image.numpy().tobytes(), []).append(mixture)
    apart = [(m[0] - m[1]).abs().max().item() for m in mixtures.values() if len(m) > 1]
    assert len(apart) > 10
    assert max(apart) < 1e-6 if pseudo == "fixed" else sorted(apart)[len(apart) // 2] > 1e-2


def test_drawn_ratios_are_of_the_beta_distribution():
    drawn = Draws(0, 0, 1).ratios(study_of().variants["both"].mixing, 4000)
    assert abs(float(drawn.mean()) - 2 / 3) < 0.02
    assert abs(float(drawn.var()) - 2 / (9 * 4)) < 0.005


def test_a_client_goes_through_its_images_before_it_takes_one_again():
    rows = Draws(0, 1, 1).batches(20, 4, 5)
    assert sorted(rows.flatten().tolist()) == list(range(20))
    longer = Draws(0, 1, 1).batches(20, 7, 5)
    assert torch.equal(longer[:4], rows)
    assert len(set(longer[4:].flatten().tolist())) == 15


LABELS = torch.arange(10).repeat_interleave(60)


@pytest.mark.parametrize("parts", [partition(LABELS, 7, how, 8, 0) for how in (None, 0.5)])
def test_every_image_goes_to_one_client(parts):
    assert sorted(torch.cat(parts).tolist()) == list(range(600))
    assert min(map(len, parts)) >= 8


def test_the_same_seed_deals_the_same_and_another_does_not():
    again, other = partition(LABELS, 5, 0.3, 4, 1), partition(LABELS, 5, 0.3, 4, 2)
    assert all(map(torch.equal, again, partition(LABELS, 5, 0.3, 4, 1)))
    assert not all(
        len(a) == len(b) and torch.equal(a, b) for a, b in zip(again, other, strict=True)
    )


def shares(parts: list[torch.Tensor]) -> torch.Tensor:
    counts = torch.stack([LABELS[part].bincount(minlength=10) for part in parts]).double()
    return counts / counts.sum(0)


def test_equal_sizes_and_nearly_equal_classes_without_regard_to_labels():
    parts = partition(LABELS, 6, None, 8, 0)
    assert {len(part) for part in parts} == {100}
    assert float((shares(parts) - 1 / 6).abs().max()) < 0.2


def test_the_shares_have_the_variance_of_the_dirichlet_distribution():
    """Var = (1/K)(1 - 1/K) / (K c + 1), over many draws of 10 classes."""
    clients, concentration = 4, 0.5
    drawn = [shares(partition(LABELS, clients, concentration, 1, seed)) for seed in range(60)]
    found = float(torch.stack(drawn).var())
    expected = 1 / clients * (1 - 1 / clients) / (clients * concentration + 1)
    assert abs(found / expected - 1) < 0.1


@pytest.mark.parametrize(("clients", "concentration"), [(100, None), (30, 0.01)])
def test_too_few_images_for_the_clients_are_refused(clients, concentration, monkeypatch):
    monkeypatch.setattr(setting, "ATTEMPTS", 20)
    with pytest.raises(DataError, match=rf"600 training images for {clients} clients: one would"):
        partition(LABELS, clients, concentration, 8, 0)
