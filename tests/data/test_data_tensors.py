"""Tensors in memory are divided as a source's images are."""

import pytest
import torch

from cemlib.config.data import DataConfig
from cemlib.data import DataError
from cemlib.data.digits import digits
from cemlib.data.prepare import prepare
from cemlib.data.tensors import from_tensors


def test_a_sources_images_give_the_sources_splits() -> None:
    config = DataConfig(source="digits", image_size=8, train_limit=300, split_seed=3)
    raw, expected = digits(config, None), prepare(config)
    found = from_tensors(raw.train.images, raw.train.labels, config=config)
    for name, part in expected.parts().items():
        assert torch.equal(found.parts()[name].images, part.images)
        assert torch.equal(found.parts()[name].labels, part.labels)
    assert (found.mean, found.std, found.classes) == (expected.mean, expected.std, expected.classes)


def test_a_test_set_of_ones_own_stays_whole() -> None:
    draws = torch.Generator().manual_seed(0)
    images = torch.randint(256, (60, 3, 8, 8), dtype=torch.uint8, generator=draws)
    labels = torch.arange(60) % 3
    data = from_tensors(images[:45], labels[:45], images[45:], labels[45:], classes="abc")
    assert data.classes == ("a", "b", "c")
    assert sorted(data.test.images.sum((1, 2, 3)).tolist()) == sorted(
        images[45:].sum((1, 2, 3)).tolist()
    )


def test_no_images_are_refused() -> None:
    with pytest.raises(DataError, match="there are no labels"):
        from_tensors(torch.zeros(0, 3, 8, 8, dtype=torch.uint8), torch.zeros(0, dtype=torch.long))
