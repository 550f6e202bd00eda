"""The strength of a defence at which it reaches an accuracy on validation images, by short runs.

A tried strength is a member of a sweep in a study of its own under `results/<experiment>/search`,
trained by the same job as every run. How strengths are chosen: `cemlib.search.bracket`.
"""

import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cemlib.config import ConfigError, Study
from cemlib.config.differing import differing
from cemlib.config.errors import nearest
from cemlib.config.sweeps import PLACES, SweepConfig
from cemlib.data.prepared import checksum
from cemlib.records.files import read_json
from cemlib.records.provenance import device_name, provenance, source_files
from cemlib.records.seal import write_sealed
from cemlib.search.bracket import BETWEEN, MATCHED, UNREACHED, Found, Strength, Value, find
from cemlib.search.study import Plain, folder, is_possible, prepare, search_plan, section_of
from cemlib.search.trials import Score, scored
from cemlib.study.crew import Crew
from cemlib.study.job import find_device
from cemlib.study.lock import locked
from cemlib.study.plan import Plan

# A larger value of these protects less; of all others it protects more.
RISING = ("epsilon", "topk_keep", "var_threshold", "gamma")


@dataclass(frozen=True)
class Wanted:
    """Say what is asked for.

    Attributes:
        defence: Of the study, or a sweep without what it sweeps.
        key: Of its strength, one of `cemlib.config.sweeps.PLACES`.
        accuracy: Target in %.
        within: Tolerance in points.
        seeds: Of the runs.
        epochs: To which the schedule is scaled.
    """

    defence: str
    key: str
    accuracy: float
    within: float
    seeds: tuple[int, ...]
    epochs: int

    @property
    def name(self) -> str:
        """Return the name of the search."""
        return f"match_{self.defence}"


@dataclass(frozen=True)
class Matched:
    """Hold what was found.

    Attributes:
        found: How the search ended, and where.
        tried: Scores by strength, in the order in which they were tried.
        images: Validation images.
        section: The defence with the strength that was found, to be pasted into a study.
        record: File of all this.
    """

    found: Found
    tried: Mapping[Value, Score]
    images: int
    section: Plain
    record: Path

    @property
    def failed(self) -> bool:
        """Return whether some run diverged."""
        return any(score.failed for score in self.tried.values())


def match(
    study: Study, wanted: Wanted, *, device: str, slots: int, say: Callable[[str], None]
) -> Matched:
    """Find the strength; finished runs of an earlier call are taken as they are.

    Args:
        study: Whose defence it is.
        wanted: What is asked for.
        device: `auto`, `cpu` or `cuda`.
        slots: Runs at the same time.
        say: Called with a line when a run has ended.

    Raises:
        ConfigError: if the defence has no such strength.
        StudyError: if a job failed.
        FileError: if the same search is running already.
    """
    start, kind = time.perf_counter(), find_device(device).type
    section = section_of(study, wanted.defence)
    strength = strength_of(section, wanted.key)
    tried: dict[Value, Score] = {}
    with locked(folder(study) / ".locks" / wanted.name), Crew(slots, study.threads) as crew:

        def accuracy(value: Value) -> float:
            plan = _plan(study, wanted, section, [value])
            prepare(study, plan)
            tried[value] = scored(plan, crew, device, say)
            return 0.0 if tried[value].failed else tried[value].accuracy

        found = find(accuracy, wanted.accuracy, wanted.within, strength)
    plan = _plan(study, wanted, section, [*tried])
    made = _section(section, wanted, found.value)
    path = folder(study) / f"{wanted.name}.json"
    images = int(read_json(plan.layout.prepared_facts)["counts"]["val"])
    matched = Matched(found, tried, images, made, path)
    _write(matched, study, wanted, plan, kind, time.perf_counter() - start)
    return matched


def strength_of(section: Plain, key: str) -> Strength:
    """Return a strength of a defence's plain section, from the value that stands there.

    Raises:
        ConfigError: if the section has none of that key, or one that is no number above 0.
    """
    own = _own(section, key)
    if isinstance(own, bool) or not isinstance(own, int | float) or own <= 0:
        raise ConfigError(
            f"--key {key}: the search starts from the value of the defence, a number above 0;"
            f" found {own!r}: give the defence one"
        )
    whole = isinstance(own, int)
    sweep = _sweep(section, {key: [own]})
    return Strength(
        own,
        lambda value: is_possible(sweep.section({key: value})),
        whole=whole,
        rising=key in RISING,
    )


def _own(section: Plain, key: str) -> Any:
    if key not in PLACES:
        raise ConfigError(f"--key {key}: cannot be searched{nearest(key, PLACES)}")
    at: Any = section
    for part in PLACES[key]:
        if not isinstance(at, Mapping) or part not in at:
            raise ConfigError(f"--key {key}: the defence has no {'.'.join(PLACES[key])}")
        at = at[part]
    return at


def _sweep(section: Plain, over: Mapping[str, list[Value]]) -> SweepConfig:
    return SweepConfig.model_validate_json(json.dumps(section | {"over": over}))


def _plan(study: Study, wanted: Wanted, section: Plain, values: list[Value]) -> Plan[Study]:
    sweep = {wanted.defence: section | {"over": {wanted.key: values}}}
    return search_plan(study, wanted.name, epochs=wanted.epochs, seeds=wanted.seeds, sweeps=sweep)


def _section(section: Plain, wanted: Wanted, value: Value) -> Plain:
    """Return what of the found defence differs from the defaults, under a name for a study."""
    plain = _sweep(section, {wanted.key: [value]}).section({wanted.key: value})
    at = f"{wanted.accuracy:g}".replace(".", "p")
    return {"defences": {f"{wanted.defence}_at_{at}": differing(plain, "defence")}}


def _write(
    matched: Matched, study: Study, wanted: Wanted, plan: Plan[Study], kind: str, seconds: float
) -> None:
    tried = [
        {"value": value, "accuracy": score.accuracy, "standard_error": score.standard_error}
        | {"val_mse": score.mse}
        | asdict(score)
        for value, score in matched.tried.items()
    ]
    record = {
        "kind": "match",
        "experiment": study.experiment,
        "wanted": asdict(wanted),
        "full_epochs": study.train.epochs,
        "end": matched.found.end,
        "value": matched.found.value if matched.found.end is MATCHED else None,
        "nearest": matched.found.value,
        "tried": tried,
        "val_images": matched.images,
        "data_sha256": checksum(plan.layout.data),
        "config": plan.study.plain(),
        "provenance": provenance(
            source_files("cemlib.search.match"), device_name(kind), study.threads
        ),
        "wall_seconds": seconds,
    }
    write_sealed(matched.record, record)


def remarks(matched: Matched, wanted: Wanted) -> list[str]:
    """Return sentences that tell how the search ended, and how noisy its result is."""
    value, score = matched.found.value, matched.tried[matched.found.value]
    at = f"{wanted.key} {value:g}"
    reached = f"the accuracy is {score.accuracy:.1f} %" if not score.failed else "a run diverged"
    ends = {
        MATCHED: f"matched at {at}: {reached}, {wanted.accuracy:g} % +- {wanted.within:g} was"
        " asked for",
        UNREACHED: f"not matched: {wanted.accuracy:g} % lies outside what {wanted.key} can do:"
        f" even at {at} {reached}",
        BETWEEN: f"not matched: no strength within {wanted.within:g} points was found; at the"
        f" nearest, {at}, {reached}",
    }
    return [ends[matched.found.end], *_doubts(matched, wanted, score)]


def _doubts(matched: Matched, wanted: Wanted, score: Score) -> list[str]:
    error, doubts = score.standard_error, []
    if len(score.accuracies) == 1 and not score.failed:
        doubts.append("one seed: how far another one lies is not known; give more seeds")
    if error > wanted.within:
        doubts.append(
            f"noise: the standard error over seeds, {error:.2f} points, is larger than the"
            f" tolerance of {wanted.within:g}; more seeds would match more truly"
        )
    share = score.accuracy / 100
    sampling = 100 * math.sqrt(share * (1 - share) / matched.images)
    if sampling > wanted.within:
        doubts.append(
            f"{matched.images} validation images: their choice alone moves an accuracy by a"
            f" standard error of {sampling:.2f} points"
        )
    return doubts
