"""What the results page says, as plain data: the template only lays it out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Fact:
    """One line of the head: what it is about, and what is the case."""

    label: str
    text: str


@dataclass(frozen=True)
class Cell:
    """One cell of a table.

    Attributes:
        text: what stands there.
        spread: half width of its interval, with its sign; may be empty.
        note: longer, for who points at it; may be empty.
        order: by what a table is sorted; empty where there is no value.
    """

    text: str
    spread: str = ""
    note: str = ""
    order: str = ""


@dataclass(frozen=True)
class Column:
    """Head of a column: its title, its explanation, whether it has numbers."""

    title: str
    note: str
    numeric: bool = False


@dataclass(frozen=True)
class SummaryRow:
    """One defence under one attack with one knowledge."""

    defence: str
    attack: str
    knowledge: str
    cells: Sequence[Cell]


@dataclass(frozen=True)
class Summary:
    """The summary table."""

    columns: Sequence[Column]
    rows: Sequence[SummaryRow]


@dataclass(frozen=True)
class Comparison:
    """A paired difference to the reference defence.

    Attributes:
        defence: the defence that is compared.
        score: which score, with its unit.
        knowledge: what the attacker has; empty for accuracy.
        difference: defence minus reference, with its interval.
        effect: size of the effect, g_z, as text.
        p: p value as text, corrected over the study.
        shown: whether the test shows a difference.
        words: what may be said.
    """

    defence: str
    score: str
    knowledge: str
    difference: str
    effect: str
    p: str
    shown: bool
    words: str


@dataclass(frozen=True)
class Drawing:
    """A figure of the report, as a picture within the page.

    Attributes:
        name: its file's, without the ending.
        title: what it shows.
        caption: how it is read.
        source: data URI of the PNG.
        width: in pixels.
        height: in pixels.
    """

    name: str
    title: str
    caption: str
    source: str
    width: int
    height: int


@dataclass(frozen=True)
class Job:
    """Where one result came from."""

    defence: str
    seed: int
    name: str
    status: str
    seconds: str
    memory: str
    device: str
    commit: str
    fingerprint: str
    versions: str


@dataclass(frozen=True)
class Page:
    """Everything on the page.

    Attributes:
        experiment: name of the study.
        facts: the head.
        failures: a sentence for each failed result.
        note: what the mark of unconverged attacks means; empty where nothing has it.
        summary: the summary table.
        comparisons: paired differences to `reference`.
        reference: the defence that is compared with.
        drawings: the figures by the part of the page in which they stand.
        jobs: provenance of every result.
        settings: the configuration with its defaults, by section.
        left_out: seeds whose pictures would make the page too large.
        data: what the scripts choose from.
    """

    experiment: str
    facts: Sequence[Fact]
    failures: Sequence[str]
    note: str
    summary: Summary
    comparisons: Sequence[Comparison]
    reference: str
    drawings: Mapping[str, Sequence[Drawing]]
    jobs: Sequence[Job]
    settings: Mapping[str, str]
    left_out: Sequence[int]
    data: Mapping[str, Any]
