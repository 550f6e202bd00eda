"""The mask of the gradient: exact scores, ties, zero features, and the Hadamard product."""

import math
from functools import partial

import pytest
import torch
from inversion_scenes import observe
from torch import Tensor, nn

from cemlib.federated.client import Masking, step_mask
from cemlib.federated.mask import draw_columns, mask, masked, scores
from cemlib.federated.network import FederatedNet, build, weights_of


def network(activation: str = "softplus", name: str = "lenet") -> FederatedNet:
    torch.manual_seed(0)
    return build(name, num_classes=5, image_shape=(2, 8, 8), activation=activation).double()


def images(count: int) -> Tensor:
    return torch.rand(count, 2, 8, 8, dtype=torch.float64, generator=generator())


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(1)


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
@pytest.mark.parametrize("activation", ["sigmoid", "softplus", "relu"])
@pytest.mark.parametrize("count", [1, 3])
def test_scores_equal_one_backward_pass_per_feature(order, activation, count):
    net, x = network(activation), images(count)
    found = scores(net.features, x, order)
    torch.testing.assert_close(found, slow_scores(net, x, order), rtol=1e-12, atol=1e-14)


def test_signed_features_tell_the_two_orders_apart_in_a_batch_and_not_in_one_image():
    linear = nn.Linear(128, 6).double()
    signed = FederatedNet(nn.Sequential(nn.Flatten(), linear), 6, 5)
    x = images(4)
    for order in ("ours", "soteria"):
        torch.testing.assert_close(scores(signed.features, x, order), slow_scores(signed, x, order))
    one = [scores(signed.features, x[:1], order) for order in ("ours", "soteria")]
    torch.testing.assert_close(*one)
    both = [scores(signed.features, x, order) for order in ("ours", "soteria")]
    assert (both[0] * len(x) - both[1]).abs().max() > 1e-3


@pytest.mark.parametrize("chunk", [1, 5, 1000])
def test_the_chunk_decides_no_number(chunk):
    net, x = network(), images(2)
    torch.testing.assert_close(
        scores(net.features, x, chunk=chunk), scores(net.features, x), rtol=1e-13, atol=0
    )


def test_a_zero_feature_is_masked_last_and_a_constant_one_first():
    def three(x: Tensor) -> Tensor:
        flat = x.flatten(1)
        return torch.stack([flat[:, 0] * 0, flat[:, 0] * 0 + 2, flat.sum(1)], dim=1)

    found = scores(three, images(2))
    assert found[0] == math.inf
    assert found[1] == 0
    assert mask(found, 1).tolist() == [1, 0, 1]
    assert mask(found, 2).tolist() == [1, 0, 0]
    assert mask(torch.tensor([2.0, 1.0, 1.0, 1.0]), 2).tolist() == [1, 0, 0, 1]  # the earlier ones
    assert mask(torch.tensor([math.nan, 1.0]), 1).tolist() == [1, 0]


@pytest.mark.parametrize(("alpha", "zeros"), [(0.0, 0), (0.5, 5), (1.0, 10), (3, 3), (0, 0)])
def test_alpha_is_a_share_or_a_number(alpha, zeros):
    assert int((mask(torch.arange(10.0), alpha) == 0).sum()) == zeros


def test_a_masked_gradient_is_the_hadamard_product_with_h():
    net, x = network(), images(1)
    y = torch.tensor([3])
    weights = weights_of(net)
    plain, _ = observe(net, x, y, None, generator())
    kept = step_mask(net, weights, x, Masking(alpha=0.4, beta=2))
    found = masked(plain, kept, draw_columns(2, 5, generator()).double())
    h = torch.ones(len(kept), 5, dtype=torch.float64)  # l x outputs, as the text has it
    for column in draw_columns(2, 5, generator()).nonzero().flatten().tolist():
        h[:, column] = kept
    expected = (plain["classifier.weight"].T * h).T
    assert torch.equal(found["classifier.weight"], expected)
    assert int((h == 0).sum()) == 2 * round(0.4 * len(kept))
    for name in set(found) - {"classifier.weight"}:
        assert torch.equal(found[name], plain[name])


def test_what_the_server_sees_is_the_gradient_of_autograd_under_the_mask():
    net, x, y = network("sigmoid"), images(2), torch.tensor([0, 4])
    how = Masking(alpha=0.3, beta=1.0)
    found, kept = observe(net, x, y, how, generator())
    nn.functional.cross_entropy(net(x), y).backward()
    assert kept is not None
    assert net.classifier.weight.grad is not None
    expected = net.classifier.weight.grad * kept
    torch.testing.assert_close(found["classifier.weight"], expected)
    torch.testing.assert_close(found["body.0.weight"], net.body[0].weight.grad)


def test_only_the_first_images_decide_the_scores_where_asked():
    net, x = network(), images(4)
    first = step_mask(net, weights_of(net), x[:2], Masking(0.5, 1.0))
    assert torch.equal(step_mask(net, weights_of(net), x, Masking(0.5, 1.0, images=2)), first)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (partial(mask, torch.ones(3), 1.5), "share must lie in"),
        (partial(mask, torch.ones(3), 4), r"0\.\.3"),
        (partial(draw_columns, -1, 3, generator()), r"beta as a number"),
        (partial(scores, network().features, images(1), "other"), "order"),
        (partial(scores, network().features, images(1)[0]), "images"),
        (partial(scores, lambda x: x, images(1)), "features"),
        (partial(build, "lennet", num_classes=2, image_shape=(1, 8, 8)), "did you mean 'lenet'"),
        (partial(build, "lenet", num_classes=2, image_shape=(1, 4, 4)), "8 or more"),
    ],
)
def test_wrong_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
