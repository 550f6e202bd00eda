"""The study that a search trains: ordinary runs of some sections, on data without test images.

In its prepared data the validation images stand in the place of the test images too. So whatever a
training or an attack computes of "test" images is of the validation images, and no choice can be
made on the study's test images: they are not there.
"""

import json
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from cemlib.config import ConfigError, Study, parse
from cemlib.config.defences import DefenceConfig
from cemlib.config.errors import nearest
from cemlib.config.study import TrainConfig
from cemlib.records.layout import Layout
from cemlib.records.seal import read_sealed
from cemlib.study.finished import finished, run_job
from cemlib.study.job import prepare_job
from cemlib.study.plan import Plan

SEARCH = "search"  # folder in the study's
STAND_IN = "test_images"  # key of what the prepared data say about themselves
ATTACK = "linear"

Plain = dict[str, Any]


def folder(study: Study) -> Path:
    """Return where the searches of a study lie: `results/<experiment>/search`."""
    return Path(study.results) / study.experiment / SEARCH


def search_plan(
    base: Study,
    name: str,
    *,
    epochs: int,
    seeds: Iterable[int],
    sweeps: Mapping[str, Plain],
) -> Plan[Study]:
    """Return a search's study: the base's data, network and training, and sweeps of its own.

    Args:
        base: The study that is searched.
        name: Of the search.
        epochs: To which the schedule is scaled.
        seeds: Of the runs.
        sweeps: Sections by name.

    Raises:
        ConfigError: if a section is faulty, or the training selects by test images.
    """
    if base.train.select == "best_test":
        raise ConfigError(
            "train.select: best_test chooses by test images, which a search must not see;"
            " set last or best_val"
        )
    plain = base.plain()
    train = shortened(base.train, epochs).plain()
    full = base.train.epochs
    own: Plain = {
        "experiment": f"{name}_epochs{epochs}",
        "results": str(folder(base)),
        "seeds": list(seeds),
        "reference": None,
        "report": {},
        "attacks": {ATTACK: {}},
        "train": train,
        "defences": {},
        "sweeps": _scaled(sweeps, epochs, full),
    }
    return Plan(parse(plain | own))


def shortened(train: TrainConfig, epochs: int) -> TrainConfig:
    """Return a training of fewer (or more) epochs, its milestones at the same share of them.

    Example:
        >>> short = shortened(TrainConfig(), 24)
        >>> short.epochs, short.milestones
        (24, (6, 12, 18, 21))
    """
    milestones = tuple(_at(milestone, epochs, train.epochs) for milestone in train.milestones)
    return train.model_copy(update={"epochs": epochs, "milestones": milestones})


def section_of(study: Study, name: str) -> Plain:
    """Return the plain section of a defence, or of a sweep without what it sweeps.

    Raises:
        ConfigError: if there is neither.
    """
    if name in study.sweeps:
        return study.sweeps[name].section({})
    if name not in study.defences:
        known = [*study.sweeps, *study.defences]
        raise ConfigError(
            f"no defence or sweep {name!r} in this study (it has {', '.join(known)})"
            f"{nearest(name, known)}"
        )
    return study.defences[name].plain()


def is_possible(section: Plain) -> bool:
    """Return whether a plain section is one of a defence."""
    try:
        DefenceConfig.model_validate_json(json.dumps(section))
    except ValueError:
        return False
    return True


def prepare(base: Study, plan: Plan[Study]) -> None:
    """Prepare the study's data if need be, and lay them without test images beside the search.

    The studies of all searches share one copy.
    """
    origin = Plan(base)
    job = prepare_job(origin)
    if not finished(job):
        deque(run_job(job), maxlen=0)
    _link(plan.layout)
    checksum = read_sealed(origin.layout.prepared_facts)["sha256"]
    mark = f"the validation images; prepared data without test images, of {checksum}"
    if not _are_laid(plan, mark):
        _lay(origin.layout.data, folder(base) / "data", mark)


def _lay(source: Path, target: Path, mark: str) -> None:
    from cemlib.data.prepared import Split, load, save

    data = load(source)
    val = data.val  # copied: a file of tensors holds none twice
    save(
        replace(
            data,
            test=Split(val.images.clone(), val.labels.clone()),
            provenance=data.provenance | {STAND_IN: mark},
            indices={**data.indices, "test": data.indices["val"].clone()},
            duplicates_train_test=len(val),
        ),
        target,
    )


def _are_laid(plan: Plan[Study], mark: str) -> bool:
    """Return whether the data without test images are there, and of the study's present data."""
    if not finished(prepare_job(plan)):
        return False
    facts = read_sealed(plan.layout.prepared_facts, ("source",))
    return bool(facts["source"].get(STAND_IN) == mark)


def _link(layout: Layout) -> None:
    layout.root.mkdir(parents=True, exist_ok=True)
    if not layout.data.is_symlink():
        layout.data.symlink_to(Path("..") / layout.data.name, target_is_directory=True)


def _scaled(sections: Mapping[str, Plain], epochs: int, full: int) -> dict[str, Plain]:
    """Return sections whose pruning comes at the same share of the epochs."""
    return {name: _with_pruning(section, epochs, full) for name, section in sections.items()}


def _with_pruning(section: Plain, epochs: int, full: int) -> Plain:
    pruning = section.get("pruning")
    if pruning is None:
        return section
    return section | {"pruning": pruning | {"epoch": _at(pruning["epoch"], epochs, full)}}


def _at(epoch: int, epochs: int, full: int) -> int:
    return max(1, epoch * epochs // full)
