"""The base classes of all sections of the configuration."""

import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, StringConstraints


def _is_usable(name: str) -> str:
    if not re.fullmatch("[A-Za-z][A-Za-z0-9_]*", name):
        raise ValueError("a name has only letters, digits and _, and begins with a letter")
    if name in ("attacks", "gans", "published"):
        raise ValueError(f"{name!r} is the name of a folder of results; choose another")
    return name


# Names become folder names, rule names and wildcards, so they hold no special characters.
Name = Annotated[str, StringConstraints(max_length=60), AfterValidator(_is_usable)]
Precision = Literal["float32", "bfloat16", "auto"]  # see cemlib.numerics.precision


class Section(BaseModel):
    """A frozen section that refuses unknown keys and does not convert values of another type."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, populate_by_name=True, allow_inf_nan=False
    )

    def plain(self, *left_out: str) -> dict[str, Any]:
        """Return the section as plain values under the keys of a file, without some fields."""
        return self.model_dump(mode="json", by_alias=True, exclude=set(left_out))


def distinct(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the values of a list; raise ValueError if one is listed twice."""
    twice = [*dict.fromkeys(value for value in values if values.count(value) > 1)]
    if twice:
        raise ValueError(f"{twice} are listed twice; give each once")
    return values


def named(value: Any) -> Any:
    """Replace a name by a section with that name and its defaults."""
    return {"name": value} if isinstance(value, str) else value


def nested(annotation: Any) -> Iterator[type[Section]]:
    """Yield the section classes in a type, which may be a union or a mapping."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        yield annotation
    else:
        for argument in get_args(annotation):
            yield from nested(argument)


def keys_of(kind: type[Section]) -> set[str]:
    """Return the keys of a section and of all sections inside it."""
    fields = kind.model_fields.items()
    inside = (keys_of(inner) for _, field in fields for inner in nested(field.annotation))
    return {field.alias or name for name, field in fields}.union(*inside)


def tagged(annotation: Any) -> dict[str, type[Section]]:
    """Return the members of a union of sections by their discriminator, `name` or `kind`."""
    kinds = list(nested(annotation))
    tag = "kind" if "kind" in kinds[0].model_fields else "name"
    return {kind.model_fields[tag].default: kind for kind in kinds}
