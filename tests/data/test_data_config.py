"""The configuration of the data."""

from typing import Any, get_args

import pytest
from pydantic import ValidationError

from cemlib.config.base import Section
from cemlib.config.data import AugmentConfig, DataConfig
from cemlib.data import SOURCES


def test_every_source_of_the_schema_exists_and_no_other() -> None:
    assert get_args(DataConfig.model_fields["source"].annotation) == tuple(SOURCES)


def test_every_key_is_described() -> None:
    fields = DataConfig.model_fields | AugmentConfig.model_fields
    assert [name for name, field in fields.items() if not field.description] == []


@pytest.mark.parametrize(
    ("section", "wrong"),
    [
        (DataConfig, {"source": "cifar11"}),
        (DataConfig, {"image_size": "32"}),
        (DataConfig, {"image_size": 32.0}),
        (DataConfig, {"channels": 2}),
        (DataConfig, {"val_fraction": float("nan")}),
        (DataConfig, {"split_seed": True}),
        (DataConfig, {"sources": "digits"}),
        (AugmentConfig, {"flip": 1}),
    ],
)
def test_wrong_values_are_refused(section: type[Section], wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=next(iter(wrong))):
        section(**wrong)
