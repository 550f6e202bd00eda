"""The adversarial decoder: both directions of its one backward pass."""

import copy

import pytest
import torch
from penalties import build
from torch import Tensor, nn

from cemlib.defences.penalties.arl import AdversarialDecoder
from cemlib.metrics import ssim

IMAGES, FEATURES = (1, 8, 8), (2, 4, 4)
SCALE = 0.3
LABELS = torch.zeros(12, dtype=torch.long)  # which it does not use


def adversary(threshold: float = -1.0, lr: float = 1e-2) -> AdversarialDecoder:
    """A narrow decoder, float64; the default threshold lies below every similarity."""
    torch.manual_seed(0)
    options = {"scale": SCALE, "threshold": threshold, "blocks": 1, "width": 8, "lr": lr}
    penalty = build("arl", image_shape=IMAGES, feature_shape=FEATURES, **options)
    return penalty.double()


def encoder() -> nn.Sequential:
    torch.manual_seed(1)
    layers = nn.Sequential(nn.Conv2d(1, 2, 3, stride=2, padding=1), nn.Sigmoid())
    return layers.double()


def images() -> Tensor:
    """Bright discs at random places: what SSIM can learn from."""
    places = 7 * torch.rand(12, 2, 1, 1, generator=torch.Generator().manual_seed(2))
    grid = torch.stack(torch.meshgrid(torch.arange(8.0), torch.arange(8.0), indexing="ij"))
    squares = (grid - places).square().sum(1, keepdim=True)
    return (-squares / 8).exp().double()


def similarity(penalty: AdversarialDecoder, released: Tensor) -> Tensor:
    """Mean SSIM of the decoder's answers, in train mode and without touching the decoder."""
    return ssim(copy.deepcopy(penalty.decoder)(released), images()).mean()


def trained(penalty: AdversarialDecoder, released: Tensor, steps: int = 40) -> AdversarialDecoder:
    for _ in range(steps):
        penalty(images(), LABELS, released, released).backward()
        penalty.step()
    return penalty


def test_the_value_is_the_encoders_penalty() -> None:
    released = encoder()(images()).detach()
    reached = similarity(adversary(), released).item()
    above, below = adversary(reached - 0.25), adversary(reached + 0.25)
    assert above(images(), LABELS, released, released).item() == pytest.approx(
        SCALE * 0.25, rel=1e-9
    )
    assert below(images(), LABELS, released, released).item() == 0


def separately(penalty: AdversarialDecoder, outer: nn.Module) -> tuple[list[Tensor], list[Tensor]]:
    """Gradients of the whole loss for the encoder, then of -SSIM for the decoder: two passes."""
    features = outer(images())
    reached = ssim(penalty.decoder(features + 0.01), images()).mean()
    loss = (features - 0.2).square().sum() + SCALE * torch.relu(
        reached - penalty.settings.threshold
    )
    for_encoder = torch.autograd.grad(loss, list(outer.parameters()), retain_graph=True)
    learning = [each for each in penalty.decoder.parameters() if each.requires_grad]
    for_decoder = torch.autograd.grad(-reached, learning)
    return list(for_encoder), list(for_decoder)


@pytest.mark.parametrize("factor", [1.0, 4.0])
@pytest.mark.parametrize("threshold", [-1.0, 0.999])
def test_one_backward_equals_two_passes(threshold: float, factor: float) -> None:
    """A factor on the whole loss reaches encoder and decoder alike."""
    start = trained(adversary(threshold), encoder()(images()).detach(), steps=5)
    expected = separately(copy.deepcopy(start), copy.deepcopy(outer := encoder()))
    features = outer(images())
    penalty = start(images(), LABELS, features, features + 0.01)
    (factor * ((features - 0.2).square().sum() + penalty)).backward()
    for module, wanted in zip((outer, start.decoder), expected, strict=True):
        found = [each.grad for each in module.parameters() if each.requires_grad]
        torch.testing.assert_close(found, [factor * w for w in wanted], rtol=1e-9, atol=1e-14)
    assert max(each.abs().max().item() for each in expected[1]) > 1e-4


def test_a_step_is_one_of_adam_with_the_attacks_decay() -> None:
    penalty, released = adversary(lr=3e-3), encoder()(images()).detach()
    other = copy.deepcopy(penalty)
    theirs = torch.optim.Adam(other.decoder.parameters(), lr=3e-3, weight_decay=1e-4)
    for _ in range(4):
        trained(penalty, released, steps=1)
        theirs.zero_grad()
        (-ssim(other.decoder(released), images()).mean()).backward()
        theirs.step()
    found, wanted = list(penalty.parameters()), list(other.parameters())
    torch.testing.assert_close(found, wanted, rtol=1e-7, atol=1e-10)
    assert all(each.grad is None for each in penalty.parameters())


@pytest.mark.parametrize("feature_shape", [(8, 3, 3), (8, 64, 64), (8, 8, 4), (8, 12, 12)])
def test_sides_that_do_not_double_are_refused(feature_shape: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match=r"does not give 32x32 images"):
        build("arl", image_shape=(3, 32, 32), feature_shape=feature_shape)


def test_the_default_decoder_is_the_published_one() -> None:
    """res_normN4C64: the attack's 711,539 parameters at 8 channels less four blocks of 64."""
    arl = build("arl", image_shape=(3, 32, 32), feature_shape=(8, 8, 8))
    block = 2 * (2 * 64) + 2 * (64 * 64 * 9 + 64)
    assert sum(each.numel() for each in arl.parameters()) == 711_539 - 4 * block
    assert (arl.settings.scale, arl.settings.threshold, arl.settings.lr) == (0.3, 0.5, 1e-3)
