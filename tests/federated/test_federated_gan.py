"""The clients' GANs: losses in closed form, two phases, the variance term, the extractor."""

import pytest
import torch
from tiny_federation import study_of
from torch import nn
from torch.nn import functional as F

from cemlib.config.federated import GanConfig
from cemlib.data.prepared import Prepared, Split
from cemlib.federated import gan as extractor
from cemlib.federated.gan_training import ClientGans
from cemlib.federated.setting import clients_of, random_batches
from cemlib.numerics.seeds import generator
from cemlib.records.files import FileError


def gans(data: Prepared, **settings: object) -> ClientGans:
    clients = clients_of(study_of(), data, 0)
    kernels = torch.randn(4, 6, 1, 3, 3, generator=torch.Generator().manual_seed(0))
    chosen = {"epochs": 2, "discriminator_steps": 2, "generator_steps": 2, "width": 8} | settings
    return ClientGans(clients, kernels, 10, GanConfig(**chosen), 0)


def test_losses_are_those_of_the_text():
    logits = torch.tensor([0.3, -1.2], dtype=torch.float64)
    chance = logits.sigmoid()
    expected = -chance.log().mean() - (1 - chance).log().mean()
    torch.testing.assert_close(extractor.discriminator_loss(logits, logits), expected)
    images = torch.rand(5, 1, 4, 4, dtype=torch.float64)
    spread = images.numpy().var(axis=0, ddof=1).mean()
    torch.testing.assert_close(extractor.variance(images), torch.tensor(spread))
    assert float(extractor.variance(images[:1].expand(6, 1, 4, 4))) == pytest.approx(0, abs=1e-12)
    within = images.numpy().reshape(5, -1).var(axis=1, ddof=1).mean()
    torch.testing.assert_close(extractor.variance(images, "image"), torch.tensor(within))
    found = extractor.generator_loss(logits, torch.tensor(spread), mu=3.0, v_e=0.2)
    torch.testing.assert_close(found, -chance.log().mean() + 3 * (spread - 0.2) ** 2)


def test_the_networks_use_the_label_and_keep_the_shape():
    net, judge = extractor.Generator((3, 12, 8), 4, 5, 6), extractor.Discriminator((7, 12, 8), 4, 6)
    e = torch.randn(1, 5).expand(4, 5)
    made = net(e, torch.arange(4))
    assert made.shape == (4, 3, 12, 8)
    assert not torch.allclose(made[0], made[1])
    features = extractor.extracted(made, torch.randn(7, 3, 3, 3))
    assert features.shape == (4, 7, 12, 8)
    found = judge(features[:1].expand(4, -1, -1, -1), torch.arange(4))
    assert len(set(found.tolist())) == 4


def test_each_phase_moves_its_own_networks(data):
    found = gans(data)
    g, d = snapshot(found.g_weights), snapshot(found.d_weights)
    found._first_phase(1)
    assert snapshot(found.g_weights) == g
    d_after = snapshot(found.d_weights)
    assert d_after != d
    found._second_phase(1)
    assert snapshot(found.g_weights) != g
    assert snapshot(found.d_weights) == d_after


@pytest.mark.parametrize("of", ["batch", "image"])
def test_the_chosen_variance_is_drawn_to_its_target(data, of):
    """With a weight under which nothing else counts."""
    found = gans(data, variance=of, mu=1e4, v_e=0.02, epochs=15, lr=0.01)
    rows = [found.epoch(number) for number in range(1, 16)]
    assert abs(rows[-1]["variance"] - 0.02) < 0.005 < abs(rows[0]["variance"] - 0.02)


def snapshot(weights: dict[str, torch.nn.Parameter]) -> list[float]:
    return [tensor.double().sum().item() for tensor in weights.values()]


def test_a_clients_gan_sees_that_clients_images_alone(data):
    """Other images of client 3 change its GAN, and no other."""
    first, second = gans(data), gans(data)
    last = second.clients[3]
    second.clients = [*second.clients[:3], Split(255 - last.images, last.labels)]
    for each in (first, second):
        for number in range(1, each.settings.epochs + 1):
            each.epoch(number)
    for name, tensor in first.g_weights.items():
        torch.testing.assert_close(tensor[:3], second.g_weights[name][:3], rtol=1e-4, atol=1e-5)
    moved = first.g_weights["last.weight"][3] - second.g_weights["last.weight"][3]
    assert float(moved.detach().abs().max()) > 1e-4


def test_a_pretrained_convolution_is_read_where_it_is_at_hand(tmp_path):
    kernel = torch.randn(64, 3, 3, 3)
    file = tmp_path / "vgg11.pth"
    torch.save({"features.0.weight": kernel, "features.0.bias": torch.zeros(64)}, file)
    (colour, origin), (grey, _) = (extractor.pretrained(file, channels, 2) for channels in (3, 1))
    assert torch.equal(colour, torch.stack([kernel, kernel]))
    assert origin["source"] == "torchvision vgg11 features.0"
    x = torch.rand(2, 1, 8, 8)
    torch.testing.assert_close(
        extractor.extracted(x, grey[1]),
        extractor.extracted(x.expand(2, 3, 8, 8), kernel),
        rtol=1e-4,
        atol=1e-4,
    )


def test_only_torchs_cache_is_read_and_damaged_weights_are_named(monkeypatch, tmp_path):
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    file = extractor.cached_weights()
    assert file == tmp_path / "hub" / "checkpoints" / extractor.WEIGHTS
    assert not (tmp_path / "hub").exists()
    file.parent.mkdir(parents=True)
    file.write_bytes(b"no weights")
    with pytest.raises(FileError, match="no weights of torchvision's VGG11"):
        extractor.pretrained(file, 3, 2)


def test_each_client_trains_an_extractor_as_torch_would(data):
    clients = clients_of(study_of(), data, 0)
    found, origin = extractor.local(clients, 10, 0, steps=30)
    start, _ = extractor.local(clients, 10, 0, steps=0)
    assert found.shape == (4, 16, 1, 3, 3)
    assert origin["source"] == "trained locally, 30 steps"
    convolution, linear = nn.Conv2d(1, 16, 3, padding=1, bias=False), nn.Linear(256, 10, bias=False)
    convolution.weight.data.copy_(start[1])
    nn.init.zeros_(linear.weight)
    net = nn.Sequential(convolution, nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(), linear)
    descent = torch.optim.SGD(net.parameters(), lr=extractor.LR)
    for step in range(30):
        draws = [generator(0, "federated/extractor/1", step)]
        x, y = random_batches(clients[1:2], extractor.BATCH, draws)
        descent.zero_grad()
        F.cross_entropy(net(2 * x[0] - 1), y[0]).backward()
        descent.step()
    torch.testing.assert_close(found[1], convolution.weight.detach(), rtol=1e-4, atol=1e-5)
