"""The options of `SplitModel.from_module`, and what is known of the features."""

from typing import Any

import pytest
import torch
from own_networks import Residual, Wrapped
from torch import Tensor, nn

from cemlib.models import SplitModel

IMAGES = (3, 16, 16)


def images() -> Tensor:
    return torch.rand(2, *IMAGES, generator=torch.Generator().manual_seed(0))


def network() -> nn.Module:
    torch.manual_seed(0)
    return Residual()


def test_the_bottleneck_is_the_published_one() -> None:
    """A convolution 3x3 to 8 channels and a sigmoid, and a convolution 3x3 back."""
    whole = network()
    model = SplitModel.from_module(whole, "norm", image_shape=IMAGES).narrowed(5)
    added, back = model.encoder[1], model.head[0]
    assert tuple(added.weight.shape) == (5, 8, 3, 3)
    assert tuple(back.weight.shape) == (8, 5, 3, 3)
    assert model.feature_shape == (5, 16, 16)
    assert not added.bias.any()
    bound = (6 / (9 * 5 + 9 * 8)) ** 0.5  # Xavier-uniform
    assert 0.9 * bound < added.weight.abs().max() <= bound
    plain = SplitModel.from_module(whole, "norm").eval()
    model.eval()
    expected = torch.sigmoid(nn.functional.conv2d(plain.encoder(images()), added.weight, padding=1))
    features = model.encoder(images())
    assert torch.allclose(features, expected, atol=1e-6)
    assert torch.equal(model.head(features), plain.head(back(features)))


def test_the_client_normalises_where_it_is_told_to() -> None:
    whole, (mean, std) = network().eval(), ((0.1, 0.2, 0.3), (0.5, 0.6, 0.7))
    model = SplitModel.from_module(whole, "norm", mean=mean, std=std)
    by_hand = (images() - torch.tensor(mean).view(3, 1, 1)) / torch.tensor(std).view(3, 1, 1)
    assert torch.equal(model(images()), whole(by_hand))


def test_new_layers_are_on_the_networks_device() -> None:
    """On `meta`, which every machine has: there only shapes are computed."""
    whole = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.Flatten(), nn.Linear(2048, 10))
    options: dict[str, Any] = {"mean": (0.1,) * 3, "std": (0.5,) * 3, "image_shape": IMAGES}
    model = SplitModel.from_module(whole.to("meta"), "0", **options)
    narrowed = model.narrowed(2, sparse_coding=True)
    assert {part.device.type for part in narrowed.state_dict().values()} == {"meta"}


def test_sparse_coding_stands_before_the_sigmoid() -> None:
    model = SplitModel.from_module(network(), "norm", image_shape=IMAGES)
    model = model.narrowed(2, sparse_coding=True)
    kinds = [type(layer).__name__ for layer in model.encoder]
    assert kinds == ["Part", "Conv2d", "SparseCoding", "Sigmoid"]
    assert model.encoder(images()).shape == (2, 2, 16, 16)


def test_vectors_are_released_as_maps_of_one_pixel() -> None:
    whole = Wrapped().eval()
    model = SplitModel.from_module(whole, "model.1", image_shape=IMAGES)
    assert model.feature_shape == (392, 1, 1)
    assert model.encoder(images()).shape == (2, 392, 1, 1)
    assert torch.equal(model(images()), whole(images()))
    narrow = model.narrowed(8)
    assert narrow.encoder(images()).shape == (2, 8, 1, 1)
    assert narrow(images()).shape == (2, 3)
    with pytest.raises(ValueError, match="channels: must be at least 1, found 0"):
        model.narrowed(0)


def test_features_are_measured_when_the_images_are_known() -> None:
    whole = network().train()
    statistics = whole.norm.running_mean.clone()
    model = SplitModel.from_module(whole, "norm")
    for early in (lambda: model.feature_shape, lambda: model.narrowed(8)):
        with pytest.raises(ValueError, match="not known yet; call `measured`"):
            early()
    measured = model.measured(IMAGES)
    assert measured.feature_shape == (8, 16, 16)
    assert measured.measured(IMAGES) is measured
    assert measured.measured((3, 64, 64)).feature_shape == (8, 64, 64)
    assert torch.equal(whole.norm.running_mean, statistics)  # nothing was trained
    assert whole.norm.training
    assert whole.norm in list(measured.encoder.modules())


def test_halves_can_be_given_by_hand() -> None:
    encoder, head = nn.Sequential(nn.Flatten(), nn.Linear(768, 6)), nn.Linear(6, 4)
    model = SplitModel(encoder, head).measured(IMAGES)
    assert model.feature_shape == (6, 1, 1)
    assert torch.equal(model(images()), head(encoder(images())))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mean": (0.5, 0.5, 0.5)}, "mean, std: give both or neither"),
        ({"image_shape": (1, 16, 16)}, r"the client does not accept images of shape \(1, 16, 16\)"),
    ],
)
def test_options_that_do_not_fit_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SplitModel.from_module(Wrapped(), "model.0", **options)


def test_an_error_of_a_layer_is_told_as_the_layer_tells_it() -> None:
    model = SplitModel.from_module(Wrapped(), "model.0")
    with pytest.raises(RuntimeError, match=r"^Given groups=1.*channels instead$"):
        model(torch.rand(2, 1, 16, 16))


def test_what_a_client_raises_about_its_images_is_told() -> None:
    class Square(nn.Identity):
        def forward(self, x: Tensor) -> Tensor:
            assert x.shape[-1] == 32, "wrong height"
            return x

    with pytest.raises(ValueError, match=r"accept images of shape \(3, 8, 8\) .*wrong height"):
        SplitModel(Square(), nn.Identity()).measured((3, 8, 8))


def test_a_client_that_takes_more_than_images_is_refused() -> None:
    with pytest.raises(ValueError, match=r"accept images of shape \(3, 8, 8\) alone .*argument"):
        SplitModel(nn.Bilinear(4, 4, 2), nn.Identity()).measured((3, 8, 8))


def test_features_that_are_neither_maps_nor_vectors_are_refused() -> None:
    halves = nn.Flatten(2), nn.Flatten()
    with pytest.raises(ValueError, match=r"shape \(3, 256\) are neither maps"):
        SplitModel(*halves).measured(IMAGES)
