"""Find the strength at which a defence reaches an accuracy on validation images.

Each strength that is tried belongs to a sweep in a study of its own, `results/<experiment>/search`,
which shares the prepared data of the user's study and is trained by the same jobs. The search reads
no score of a run but its validation accuracy.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from pydantic import ValidationError

from cemlib.config import ConfigError, Study, parse
from cemlib.config.differing import differing
from cemlib.config.errors import nearest
from cemlib.config.sweeps import PLACES, SweepConfig, put
from cemlib.records.files import read_json
from cemlib.records.lock import locked
from cemlib.records.seal import read_sealed, write_sealed
from cemlib.search.bracket import BETWEEN, MATCHED, UNREACHED, Found, Strength, Value, find
from cemlib.study.finished import finished
from cemlib.study.job import find_device, prepare_job
from cemlib.study.plan import Plan, chosen
from cemlib.study.schedule import RUNNING, Schedule, StudyError, run_schedule
from cemlib.study.split import train_job
from cemlib.study.workers import Workers

# The layer of the cut is no strength.
KEYS = {key: place for key, place in PLACES.items() if key != "cut"}
# A larger value of these protects less; of all others it protects more.
RISING = ("bottleneck", "epsilon", "gamma", "margin", "snr_threshold", "topk_keep", "var_threshold")

Plain = dict[str, Any]


@dataclass(frozen=True)
class Wanted:
    """The accuracy that a defence is to reach, and the setting that is varied for it."""

    defence: str  # of the study, or a sweep of it
    key: str  # of the setting, one of `KEYS`
    accuracy: float  # in %, the mean over the seeds of the study
    within: float  # tolerance in percentage points


@dataclass(frozen=True)
class Score:
    """The validation accuracy of a strength."""

    accuracies: tuple[float, ...]  # in %, of every seed whose training ended
    failed: tuple[str, ...] = ()  # why the trainings of the other seeds failed

    @property
    def accuracy(self) -> float:
        """Return the mean in %; NaN if any seed failed."""
        return math.nan if self.failed else fmean(self.accuracies)

    @property
    def standard_error(self) -> float:
        """Return the standard error of the mean in percentage points; NaN for a single seed."""
        count = len(self.accuracies)
        return stdev(self.accuracies) / math.sqrt(count) if count > 1 else math.nan


@dataclass(frozen=True)
class Matched:
    """The result of a search."""

    found: Found
    tried: Mapping[Value, Score]  # in the order of the search
    images: int  # of the validation set
    section: Plain  # the defence with the strength that was found, to be pasted into a study
    record: Path  # file that holds all this


def match(plan: Plan[Study], wanted: Wanted, *, slots: int, say: Callable[[str], None]) -> Matched:
    """Search for a strength in a study; runs that an earlier call finished are not repeated.

    `slots` trainings run at the same time; `say` is called with a line when one has ended.

    Raises:
        ConfigError: if the defence has no such strength, or the training selects on test images.
        StudyError: if a job failed.
        FileError: if another search in this study is running.
    """
    find_device(plan.device)  # so that an error comes before any job
    study = plan.study
    section = section_of(study, wanted.defence)
    if section["train"].get("select", study.train.select) == "best_test":
        raise ConfigError(
            "train.select: best_test selects on test images, which a search must not see;"
            " set last or best_val"
        )
    whole = section | {"model": study.model.plain() | section["model"]}  # with what it inherits
    strength = strength_of(whole, wanted.key)
    tried: dict[Value, Score] = {}
    lock = locked(plan.layout.root / ".locks/search", RUNNING)
    with lock, Workers(slots, study.threads) as workers:

        def accuracy(value: Value) -> float:
            tried[value] = _trained(_plan(plan, wanted, section, [value]), workers, say)
            return 0.0 if tried[value].failed else tried[value].accuracy

        found = find(accuracy, wanted.accuracy, wanted.within, strength)
    (defence,) = _plan(plan, wanted, section, [found.value]).study.defences.values()
    name = f"{wanted.defence}_at_{wanted.accuracy:g}".replace(".", "p")
    pasted = differing(defence.plain(), "defence")  # without defaults, but with the strength
    put(pasted, wanted.key, found.value)
    search = _plan(plan, wanted, section, [*tried])
    images = int(read_json(search.layout.prepared_facts)["counts"]["val"])
    record = search.layout.root / f"match_{wanted.defence}.json"
    write_sealed(
        record,
        {
            "kind": "match",
            "wanted": asdict(wanted),
            **asdict(found),
            "tried": [{"value": value} | asdict(score) for value, score in tried.items()],
            "val_images": images,
            "config": search.study.plain(),
        },
    )
    return Matched(found, tried, images, {"defences": {name: pasted}}, record)


def section_of(study: Study, name: str) -> Plain:
    """Return a defence's section, or a sweep's without its values; raise ConfigError if unknown."""
    if name in study.sweeps:
        return study.sweeps[name].section({})
    known = (*study.sweeps, *study.defences)
    return study.defences[chosen("defence or sweep", known, name)[0]].plain()


def strength_of(section: Plain, key: str) -> Strength:
    """Return the strength that a key varies, starting from its value in a defence's section.

    Raises:
        ConfigError: if this value is not a number above 0, or the key cannot be varied.
    """
    if key not in KEYS:
        raise ConfigError(f"--key {key}: cannot be varied{nearest(key, KEYS)}")
    start = _at(section, KEYS[key])
    if not _is_strength(start):
        others = [other for other, place in KEYS.items() if _is_strength(_at(section, place))]
        raise ConfigError(
            f"--key {key}: the search starts from the defence's {'.'.join(KEYS[key])}, which"
            f" must be a number above 0, found {start!r} (keys of this defence that are:"
            f" {', '.join(others) or 'none'})"
        )

    def allowed(value: Value) -> bool:
        try:
            SweepConfig.model_validate_json(json.dumps(section | {"over": {key: [value]}}))
        except ValidationError:
            return False
        return True

    return Strength(start, allowed, whole=isinstance(start, int), rising=key in RISING)


def _at(section: Any, place: Sequence[str]) -> Any:
    for part in place:
        section = section.get(part) if isinstance(section, Mapping) else None
    return section


def _is_strength(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


def _plan(plan: Plan[Study], wanted: Wanted, section: Plain, values: list[Value]) -> Plan[Study]:
    """Return the study of a search: the user's study with other defences and another place."""
    own: Plain = {
        "experiment": "search",
        "results": str(plan.layout.root),
        "reference": None,
        "report": {},
        "defences": {},
        "sweeps": {wanted.defence: section | {"over": {wanted.key: values}}},
    }
    return replace(plan, study=parse(plan.study.plain() | own))


def _trained(plan: Plan[Study], workers: Workers, say: Callable[[str], None]) -> Score:
    """Train the only defence of a search's study with every seed."""
    _share_data(plan.layout.root)
    if all(map(Path.is_file, prepare_job(plan).leaves)) and not finished(prepare_job(plan)):
        raise ConfigError(
            f"{plan.layout.data}: prepared with other settings or code; the search would replace"
            " it, so run `cemlib prepare` with the same options first"
        )
    (defence,) = plan.study.defences
    runs = [train_job(plan, defence, seed) for seed in plan.study.seeds]
    schedule = Schedule([prepare_job(plan), *runs])
    for line in run_schedule(schedule, workers):
        say(line)
    if schedule.failed:
        raise StudyError(f"{plan.layout.root}: {schedule.fault()}")
    found = [read_sealed(job.records[0], ("status", "reason", "val_top1")) for job in runs]
    return Score(
        accuracies=tuple(100 * one["val_top1"] for one in found if one["status"] == "ok"),
        failed=tuple(str(one["reason"]) for one in found if one["status"] != "ok"),
    )


def _share_data(root: Path) -> None:
    """Let a search, whose folder is in that of the study's results, use the study's data."""
    data = root / "data"
    if not data.is_symlink():
        for folder in (root, root.parent / "data"):
            folder.mkdir(parents=True, exist_ok=True)
        data.symlink_to("../data", target_is_directory=True)


def remarks(matched: Matched, wanted: Wanted) -> list[str]:
    """Return sentences that say how the search ended, and how noisy its result is."""
    value, score = matched.found.value, matched.tried[matched.found.value]
    at = f"{wanted.key} {value:g}"
    reached = "a run diverged" if score.failed else f"the accuracy is {score.accuracy:.1f} %"
    end = {
        MATCHED: f"matched at {at}: {reached}; the target is {wanted.accuracy:g} %"
        f" +- {wanted.within:g}",
        UNREACHED: f"not matched: {wanted.accuracy:g} % lies outside the range of {wanted.key}:"
        f" even at {at} {reached}",
        BETWEEN: f"not matched: no strength within {wanted.within:g} points was found; at the"
        f" nearest, {at}, {reached}",
    }[matched.found.end]
    share = score.accuracy / 100
    sampling = 100 * math.sqrt(share * (1 - share) / matched.images)
    count = len(score.accuracies)
    by_seed = f"{score.standard_error:.2f} points over {count} seeds"
    noise = (
        f"standard error: {by_seed if count > 1 else 'unknown, over a single seed'};"
        f" {sampling:.2f} points by the choice of {matched.images} validation images; a match is"
        " no finer than these"
    )
    return [end] if score.failed else [end, noise]
