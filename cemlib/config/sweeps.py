"""Sweeps: one entry that stands for a defence at every combination of some settings.

They become ordinary defences when a study is read, so that no job knows of sweeps. A written study
has these defences too, and is the same study when it is read again.
"""

import json
import re
from collections.abc import Mapping
from itertools import product
from math import prod
from typing import Annotated, Any, Self

from pydantic import AfterValidator, Field, TypeAdapter, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from cemlib.config.base import Name, Section, distinct, keys_of, nested
from cemlib.config.defences import DefenceConfig
from cemlib.config.errors import SWEPT, nearest, plain
from cemlib.config.surrogates import AnySurrogate

MAX_MEMBERS = 1000

Value = bool | int | float | str

Values = Annotated[tuple[Value, ...], Field(min_length=1), AfterValidator(distinct)]
Settings = dict[str, Value]


# The place of each key of `over` in a defence's section: options of surrogates, and strengths.
PLACES: dict[str, tuple[str, ...]] = {
    **{
        key: ("surrogate", key) for each in nested(AnySurrogate) for key in keys_of(each) - {"name"}
    },
    "noise_std": ("noise_std",),
    "penalty_scale": ("penalty", "scale"),
    "pruning_ratio": ("pruning", "ratio"),
    "dropout_rate": ("channel", "rate"),
    "topk_keep": ("channel", "keep"),
    "epsilon": ("channel", "epsilon"),
    "cut": ("model", "cut"),
    "bottleneck": ("model", "bottleneck"),
}


class SweepConfig(DefenceConfig):
    """A defence at every combination of some settings: a curve of accuracy against privacy."""

    over: dict[str, Values] = Field(
        min_length=1,
        description="lists of values by key, in place of the entry's own: `lambda`, `noise_std`,"
        " any other option of its surrogate, `penalty_scale`, `pruning_ratio`, `dropout_rate`,"
        " `topk_keep`, `epsilon`, `cut` or `bottleneck`",
    )

    @model_validator(mode="after")
    def _a_bound_has_noise(self) -> Self:
        return self  # `_check` does this for every value of `over`

    @model_validator(mode="after")
    def _every_value_is_possible(self) -> Self:
        for key, values in self.over.items():
            if key not in PLACES:
                raise _fault(f"over.{key}: cannot be swept{nearest(key, PLACES)}")
            section = PLACES[key][0]
            if getattr(self, section) is None:
                raise _fault(f"over.{key}: this sweep has no {section}; add `{section}:` to it")
            for value in values:
                self._check(key, value)
        return self

    def _check(self, key: str, value: Value) -> None:
        # A swept noise replaces the entry's own, so only its values are checked, not that one.
        noise: Settings = {"noise_std": 1.0} if "noise_std" in self.over else {}
        try:
            DefenceConfig.model_validate_json(json.dumps(self.section(noise | {key: value})))
        except ValidationError as error:
            fault = error.errors(include_url=False)[0]
            unknown = fault["type"] == "extra_forbidden"
            message = fault["msg"].removeprefix("Value error, ")
            reason = "no option of this sweep's kind" if unknown else message
            raise _fault(f"over.{key}: {reason}, found {value!r:.60}") from error

    def count(self) -> int:
        """Return how many members there are."""
        return prod(map(len, self.over.values()))

    def members(self, name: str) -> dict[str, Settings]:
        """Return the swept settings of every member of the sweep of this name, by its defence."""
        every = (dict(zip(self.over, one, strict=True)) for one in product(*self.over.values()))
        return {_member(name, settings): settings for settings in every}

    def section(self, settings: Mapping[str, Value]) -> dict[str, Any]:
        """Return the plain section of the defence with some swept settings."""
        plain = self.plain("over")
        for key, value in settings.items():
            put(plain, key, value)
        return plain


def put(section: dict[str, Any], key: str, value: Value) -> None:
    """Set a key of `PLACES` in the plain section of a defence."""
    *parents, last = PLACES[key]
    for parent in parents:
        section = section.setdefault(parent, {})
    section[last] = value


def _bounded(sweeps: dict[str, SweepConfig]) -> dict[str, SweepConfig]:
    total = sum(sweep.count() for sweep in sweeps.values())
    if total > MAX_MEMBERS:
        raise ValueError(f"makes {total} defences; at most {MAX_MEMBERS} are allowed")
    return sweeps


AnySweeps = Annotated[dict[Name, SweepConfig], AfterValidator(_bounded)]
_ANY: dict[str, Any] = {"any": {}}  # in place of the members of a faulty sweep


class ReportConfig(Section):
    """Options of the comparison of sweeps with each other."""

    match_accuracy: Annotated[
        tuple[Annotated[float, Field(gt=1, le=100)], ...], AfterValidator(distinct)
    ] = Field(
        (),
        description="test accuracies in % at which privacy is compared; [] = the middle of the"
        " range that all curves cover",
    )


def expanded(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return a study's plain settings, with the members of its sweeps after its own defences.

    A defence of the same name stays as it is (see `check_members`). Faulty sweeps are not expanded:
    validation of the study reports them.
    """
    own = raw.get("defences", {})
    if "sweeps" not in raw or not isinstance(own, Mapping):
        return dict(raw)
    try:
        sweeps = TypeAdapter(AnySweeps).validate_json(json.dumps(raw["sweeps"], default=plain))
    except ValidationError:
        return {"defences": _ANY, **raw}
    made = {
        member: sweep.section(settings)
        for name, sweep in sweeps.items()
        for member, settings in sweep.members(name).items()
    }
    return {**raw, "defences": {**own, **made, **own}}  # own ones first, and as they are


def check_members(sweeps: Mapping[str, SweepConfig], defences: Mapping[str, DefenceConfig]) -> None:
    """Raise ValueError if members share a name, or one differs from the defence of its name."""
    sweep_of: dict[str, str] = {}
    for name, sweep in sweeps.items():
        members = sweep.members(name)
        if len(members) < sweep.count():
            raise ValueError(f"sweeps.{name}.over: two values give the same name; shorten them")
        for member, settings in members.items():
            wanted = DefenceConfig.model_validate_json(json.dumps(sweep.section(settings)))
            if member in sweep_of:
                other = f"is also a member of sweeps.{sweep_of[member]}"
                raise ValueError(f"sweeps.{name}: {member!r} {other}")
            if defences.get(member) != wanted:
                other = "differs from the defence of that name; rename one"
                raise ValueError(f"sweeps.{name}: {member!r} {other}")
            sweep_of[member] = name


def _fault(message: str) -> PydanticCustomError:
    return PydanticCustomError(SWEPT, "{message}", {"message": message})


def _member(sweep: str, settings: Settings) -> str:
    """Return a name such as `clustering_lambda8_noise_std0p025`."""
    parts = (f"{key}{_written(value)}" for key, value in settings.items())
    return re.sub(r"[^A-Za-z0-9_]", "_", "_".join([sweep, *parts]))


def _written(value: Value) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value).lower()
    short = f"{value:g}"
    exact = short if float(short) == value else repr(value)
    return exact.replace(".", "p").replace("e-", "em").replace("e+", "e").replace("-", "m")
