"""Images and features of any size, also of sides that do not double to the images'."""

from pathlib import Path

import pytest
import torch
from easy_tasks import network_task
from torch.nn import functional

from cemlib.attacks import ATTACKS
from cemlib.attacks.budget import untrained
from cemlib.config.attacks import Gan, Perceptual
from cemlib.config.base import Section
from cemlib.models.decoder import Decoder

NETWORK = {"blocks": 1, "width": 8}
OPTIONS = NETWORK | {"kind": "residual"}


@pytest.mark.parametrize(
    ("features", "images", "doublings"),
    [
        ((8, 8, 8), (3, 32, 32), 2),
        ((8, 4, 4), (1, 28, 28), 3),
        ((8, 7, 7), (1, 28, 28), 2),
        ((8, 14, 14), (1, 32, 32), 2),
        ((6, 5, 9), (3, 32, 40), 3),
        ((32, 1, 1), (3, 24, 24), 5),
    ],
)
def test_the_decoder_reaches_the_images(
    features: tuple[int, int, int], images: tuple[int, int, int], doublings: int
) -> None:
    torch.manual_seed(0)
    model = untrained(OPTIONS, features, images).eval()
    torch.manual_seed(0)
    reference = Decoder(features[0], images, doublings=doublings, **NETWORK).eval()
    released = torch.rand(2, *features)
    answers = model(released)
    assert answers.shape == (2, *images)
    maps = reference.layers(released)
    if features[1] in (14, 5):  # a 5x5 convolution without padding, and a pool; other layers
        maps = functional.interpolate(maps, images[1:], mode="bilinear")
    else:  # what is too much goes at the right and the bottom
        maps = maps[:, :, : images[1], : images[2]]
    expected = reference.last(maps).sigmoid()
    assert torch.equal(answers, expected)
    answers.sum().backward()


def test_features_larger_than_the_images_are_refused() -> None:
    with pytest.raises(ValueError, match=r"features of \(64, 64\) are larger than images"):
        untrained(OPTIONS, (8, 64, 64), (3, 32, 32))


@pytest.mark.parametrize(
    ("config", "options"),
    [(Perceptual, {"blocks": 1, "width": 4}), (Gan, {"critic_steps": 1, "critic_width": 2})],
)
@pytest.mark.parametrize(("side", "channels"), [(16, 1), (128, 3)])
def test_every_size_is_attacked_in_half_precision(
    tmp_path: Path, config: type[Section], options: dict[str, int], side: int, channels: int
) -> None:
    given = {"epochs": 1, "precision": "bfloat16"} | options
    task = network_task(tmp_path, config, side, channels, **given)
    found = ATTACKS[task.options["kind"]](task)
    assert found.reconstructions.shape == (3, channels, side, side)
    assert found.reconstructions.dtype == torch.float32
