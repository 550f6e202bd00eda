"""The configuration of the data."""

from typing import Any, get_args

import pytest
from pydantic import ValidationError

from cemlib.config.data import AugmentConfig, DataConfig
from cemlib.data import SOURCES


def test_every_source_of_the_schema_exists_and_no_other() -> None:
    assert get_args(DataConfig.model_fields["source"].annotation) == tuple(SOURCES)


def test_every_key_is_described() -> None:
    fields = DataConfig.model_fields | AugmentConfig.model_fields
    assert [name for name, field in fields.items() if not field.description] == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"source": "cifar11"},
        {"image_size": "32"},
        {"image_size": 7},
        {"image_size": 257},
        {"image_size": 32.0},
        {"channels": 2},
        {"val_fraction": 0},
        {"val_fraction": 1.0},
        {"val_fraction": float("nan")},
        {"test_fraction": "0.1"},
        {"train_limit": 1},
        {"split_seed": -1},
        {"split_seed": True},
        {"min_per_class": 0},
        {"root": ""},
        {"sources": "digits"},
    ],
)
def test_wrong_values_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=next(iter(wrong))):
        DataConfig(**wrong)


@pytest.mark.parametrize(
    "wrong", [{"crop_padding": -1}, {"crop_padding": 1.5}, {"flip": 1}, {"rotation": 181.0}]
)
def test_wrong_augmentations_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=next(iter(wrong))):
        AugmentConfig(**wrong)
