"""The mask of the gradient: exact scores, ties, zero features, and the Hadamard product."""

import math

import pytest
import torch
from inversion_scenes import digits, network
from torch import Tensor, nn

from cemlib.config.federated import MaskConfig
from cemlib.federated.client import masked_gradients, step_mask
from cemlib.federated.mask import draw_columns, mask, scores
from cemlib.federated.network import FederatedNet, weights_of


def slow_scores(net: FederatedNet, x: Tensor, order: str) -> Tensor:
    """Every feature of every image by its own backward pass."""
    rows = []
    for image in x:
        one = image.unsqueeze(0).requires_grad_()
        found = net.features(one)[0]
        grads = [torch.autograd.grad(f, one, retain_graph=True)[0].norm() for f in found]
        rows.append([(g.item(), f.item()) for g, f in zip(grads, found, strict=True)])
    result = []
    for column in zip(*rows, strict=True):
        ratios = [g / (abs(f) if order == "ours" else f) for g, f in column if f != 0]
        total = sum(ratios) / max(1, len(ratios)) if order == "ours" else abs(sum(ratios))
        result.append(total if ratios else math.inf)
    return torch.tensor(result, dtype=torch.float64)


@pytest.mark.parametrize("order", ["ours", "soteria"])
@pytest.mark.parametrize("activation", ["softplus", "relu"])
@pytest.mark.parametrize(("count", "chunk"), [(1, 64), (3, 1), (3, 5), (3, 64)])
def test_scores_equal_one_backward_pass_per_feature(order, activation, count, chunk, monkeypatch):
    monkeypatch.setattr("cemlib.federated.mask.CHUNK", chunk)
    net, x = network(torch.float64, activation), digits(count, torch.float64)[0]
    found = scores(net.features, x, order)
    torch.testing.assert_close(found, slow_scores(net, x, order), rtol=1e-12, atol=1e-14)


def test_signed_features_tell_the_two_orders_apart_in_a_batch_and_not_in_one_image():
    linear = nn.Linear(64, 6).double()
    signed = FederatedNet(nn.Sequential(nn.Flatten(), linear), 6, 10)
    x, _ = digits(4, torch.float64)
    for order in ("ours", "soteria"):
        torch.testing.assert_close(scores(signed.features, x, order), slow_scores(signed, x, order))
    one = [scores(signed.features, x[:1], order) for order in ("ours", "soteria")]
    torch.testing.assert_close(*one)
    both = [scores(signed.features, x, order) for order in ("ours", "soteria")]
    assert (both[0] * len(x) - both[1]).abs().max() > 1e-3


def test_a_zero_feature_is_masked_last_and_a_constant_one_first():
    def three(x: Tensor) -> Tensor:
        flat = x.flatten(1)
        return torch.stack([flat[:, 0] * 0, flat[:, 0] * 0 + 2, flat.sum(1)], dim=1)

    found = scores(three, digits(2)[0])
    assert found[0] == math.inf
    assert found[1] == 0
    assert mask(found, 1 / 3).tolist() == [1, 0, 1]
    assert mask(found, 2 / 3).tolist() == [1, 0, 0]
    assert mask(torch.tensor([2.0, 1.0, 1.0, 1.0]), 0.5).tolist() == [1, 0, 0, 1]  # the earlier
    for alpha, zeros in ((0.0, 0), (0.74, 7), (1.0, 10)):
        assert int((mask(torch.arange(10.0), alpha) == 0).sum()) == zeros
    assert mask(torch.tensor([math.nan, 1.0]), 0.5).tolist() == [1, 0]


@pytest.mark.parametrize("beta", [0, 2, None])
def test_a_masked_gradient_is_the_hadamard_product_with_h(beta):
    net, (x, y) = network(torch.float64), digits(2, torch.float64)
    how = MaskConfig(alpha=0.37, beta=beta)
    columns = draw_columns(beta, 10, torch.Generator().manual_seed(1))
    found, _ = masked_gradients(net, weights_of(net), x, y, columns.to(x), how)
    kept = step_mask(net, weights_of(net), x, how)
    h = torch.ones(len(kept), 10, dtype=torch.float64)  # l x outputs, as the text has it
    chosen = columns.nonzero().flatten().tolist()
    for column in chosen:
        h[:, column] = kept
    nn.functional.cross_entropy(net(x), y).backward()
    assert len(chosen) == (10 if beta is None else beta)
    assert int((h == 0).sum()) == len(chosen) * round(0.37 * len(kept))
    for name, weights in net.named_parameters():
        factor = h.T if name == "classifier.weight" else 1
        torch.testing.assert_close(found[name], weights.grad * factor)


def test_only_the_first_images_decide_the_scores_where_asked():
    net, x = network(), digits(4)[0]
    first = step_mask(net, weights_of(net), x[:2], MaskConfig())
    assert torch.equal(step_mask(net, weights_of(net), x, MaskConfig(images=2)), first)
