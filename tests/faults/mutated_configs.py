"""Studies that went wrong: mutations of the committed ones, in values that a file can hold."""

import copy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml
from hypothesis import strategies as st

REPOSITORY = Path(__file__).parents[2]
FILES = sorted((REPOSITORY / "config").glob("*.yaml"))
# Of split inference, as they stand: other systems have other schemas, and some files extend others.
WHOLE: list[dict[str, Any]] = [yaml.safe_load(path.read_text("utf-8")) for path in FILES]
VALUES = [raw for raw in WHOLE if not {"system", "extends"} & {*raw}]

Place = tuple[Any, Any]  # a mapping or list, and a key or index of it

NUMBERS = st.one_of(
    st.sampled_from([0, 1, -1, 2, 3, 0.5, -0.0, 1e-320, 1e308, 2**31, 2**63, -(2**70), 1.5, True]),
    st.sampled_from([float("nan"), float("inf"), float("-inf")]),
)
TEXT = st.one_of(
    st.text(st.characters(categories=["L", "N", "P"]), max_size=20),
    st.sampled_from(["", " ", "../..", "/", "~", "{defence}", "-x", "x; touch m", "*", "é"]),
    st.sampled_from(["gated", "clustering", "decoder", "linear", "train", "judge", "worst_case_4"]),
)
JUNK = st.one_of(
    st.none(),
    NUMBERS,
    TEXT,
    st.lists(NUMBERS | TEXT, max_size=4),
    st.dictionaries(TEXT, NUMBERS | TEXT, max_size=3),
)


def _places(value: Any) -> Iterator[Place]:
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    for key, below in inner:
        yield value, key
        if isinstance(below, dict | list):
            yield from _places(below)


def _delete(place: Place, _: Place, __: Any) -> None:
    del place[0][place[1]]


def _rename(place: Place, _: Place, junk: Any) -> None:
    if isinstance(place[0], dict):
        place[0][str(junk)] = place[0].pop(place[1])


def _replace(place: Place, _: Place, junk: Any) -> None:
    place[0][place[1]] = junk


def _copy(place: Place, other: Place, _: Any) -> None:
    other[0][other[1]] = copy.deepcopy(place[0][place[1]])


WAYS: list[Callable[[Place, Place, Any], None]] = [_replace, _replace, _delete, _rename, _copy]


@st.composite
def values(draw: st.DrawFn) -> Any:
    """A committed study with one to four mutations."""
    study = copy.deepcopy(draw(st.sampled_from(VALUES)))
    for _ in range(draw(st.integers(1, 4))):
        if places := list(_places(study)):
            place, other = (draw(st.sampled_from(places)) for _ in range(2))
            draw(st.sampled_from(WAYS))(place, other, draw(JUNK))
    return study
