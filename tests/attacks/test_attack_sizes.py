"""The attack's decoder for features whose sides do not double to the images'."""

import pytest
import torch

from cemlib.attacks.budget import untrained
from cemlib.models.decoder import Decoder

NETWORK = {"blocks": 1, "width": 8}
OPTIONS = NETWORK | {"kind": "residual"}


@pytest.mark.parametrize(
    ("features", "images", "doublings"),
    [
        ((8, 8, 8), (3, 32, 32), 2),
        ((8, 4, 4), (1, 28, 28), 3),
        ((8, 7, 7), (1, 28, 28), 2),
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
    whole = reference.layers(released)  # what is too much goes at the right and the bottom
    expected = reference.last(whole[:, :, : images[1], : images[2]]).sigmoid()
    assert torch.equal(answers, expected)
    answers.sum().backward()


def test_features_larger_than_the_images_are_refused() -> None:
    with pytest.raises(ValueError, match=r"features of \(64, 64\) are larger than images"):
        untrained(OPTIONS, (8, 64, 64), (3, 32, 32))
