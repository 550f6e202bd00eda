"""Check that a study can run as configured: its images, network and epochs."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from cemlib.config.data import DataConfig
from cemlib.config.errors import ConfigError
from cemlib.config.study import JUDGE, Study
from cemlib.records.files import FileError
from cemlib.study.finished import is_lost
from cemlib.study.job import AnyPlan, prepare_job

DOWNLOADS = {  # where torchvision puts a data set, below its root
    "cifar10": "cifar-10-batches-py",
    "cifar100": "cifar-100-python",
    "mnist": "MNIST/raw",
    "fashion_mnist": "FashionMNIST/raw",
    "svhn": "train_32x32.mat",
}
# Facts of the built-in networks and surrogates, here so that planning a study imports no torch.
NETWORKS = {"small": (6, 3), "vgg11": (13, 5), "resnet20": (10, 2)}  # entries, halvings
FIRST_EPOCHS = {  # in which a surrogate acts
    **dict.fromkeys(("clustering", "gmm", "logdet", "task_aware", "image_aware"), 2),
    "slot": 4,
    **dict.fromkeys(("gated", "parallel", "shortcut", "logdet_gated"), 6),
}


OK, WARNING, PROBLEM = "ok", "warning", "problem"  # a warning stops no study, a problem does


class Finding(NamedTuple):
    """The outcome of a check: its level and subject, what was found, and what to do about it."""

    level: str
    subject: str
    found: str
    advice: str = ""

    @property
    def told(self) -> str:
        """Return what was found, followed by the advice if there is any."""
        return f"{self.found}; {self.advice}" if self.advice else self.found


def requirements(plan: AnyPlan) -> Iterator[Finding]:
    """Yield the findings about a study that are known before its first job."""
    yield images(plan)
    if isinstance(plan.study, Study):
        yield from _network(plan.study)
        yield from _epochs(plan.study)
        yield from _milestones(plan.study)
        yield from _weights(plan.study)


def warnings_of(plan: AnyPlan) -> Iterator[str]:
    """Yield the warnings about a study; raise ConfigError with a line for each problem."""
    found = list(requirements(plan))
    if problems := [f"{one.subject}: {one.told}" for one in found if one.level == PROBLEM]:
        raise ConfigError("\n".join(problems))
    yield from (f"warning: {one.subject}: {one.told}" for one in found if one.level == WARNING)


def _network(study: Study) -> Iterator[Finding]:
    """Check that every network has its cut, and that its poolings divide the image size."""
    size = study.data.image_size
    places = {name: f"defences.{name}.model" for name in study.defences}
    for name, members in study.families().items():
        part = "over" if "cut" in study.sweeps[name].over else "model"
        places |= dict.fromkeys(members, f"sweeps.{name}.{part}")
    cuts = {(study.model.name, study.model.cut): "model"}
    for name, defence in study.defences.items():
        if {"name", "cut"} & defence.model.keys():
            network = study.network(name)
            cuts.setdefault((network.name, network.cut), places[name])
    for (name, cut), key in cuts.items():
        entries, _ = NETWORKS.get(name, (cut + 1, 0))
        if cut >= entries:
            advice = f"set it to at most {entries - 1}"
            found = f"{cut}, but the last cut of {name} is {entries - 1}"
            yield Finding(PROBLEM, f"{key}.cut", found, advice)
    for name in dict.fromkeys(name for name, _ in cuts):
        _, halvings = NETWORKS.get(name, (0, 0))
        if size % 2**halvings:
            found = f"{size}, but {name} halves images {halvings} times"
            advice = f"set it to a multiple of {2**halvings}"
            yield Finding(PROBLEM, "data.image_size", found, advice)


def _epochs(study: Study) -> Iterator[Finding]:
    """Check that every surrogate acts before its training ends."""
    places, told = _places(study), dict[str, tuple[int, int, str]]()
    for name, defence in study.defences.items():
        first = FIRST_EPOCHS.get(defence.surrogate.name, 1) if defence.surrogate else 1
        if first > (epochs := study.training(name).epochs):
            key = places[name]
            at = f"{key}.train.epochs" if "epochs" in defence.train else "train.epochs"
            told[key] = epochs, first, at
    for key, (epochs, first, at) in told.items():
        found = f"{epochs}, but {key}.surrogate acts from epoch {first} on"
        yield Finding(PROBLEM, at, found, f"set it to {first} or more")


def _weights(study: Study) -> Iterator[Finding]:
    """Check that the files of weights that attacks name exist."""
    for name, attack in study.attacks.items():
        file = attack.foreign_weights
        if file and not Path(file).is_file():
            advice = "it must hold torchvision's VGG16 weights"
            yield Finding(PROBLEM, f"attacks.{name}.pretrained", f"{file}: no such file", advice)


def _milestones(study: Study) -> Iterator[Finding]:
    """Warn of trainings that end before their first milestone, at the highest learning rate."""
    places, told = _places(study), dict[str, str]()
    for name in (JUDGE, *study.defences):
        training, own = study.training(name), study.defence(name).train
        first, last = min(training.milestones, default=0), training.epochs
        if training.schedule == "milestones" and first >= last:
            key = f"{places[name]}." if {"milestones", "epochs", "schedule"} & own.keys() else ""
            told[f"{key}train.milestones"] = (
                f"{[*training.milestones]}, but a training has {last} epochs: its rate never falls"
            )
    for key, found in told.items():
        advice = "lower them, choose schedule: one_cycle, or set [] for a constant rate"
        yield Finding(WARNING, key, found, advice)


def _places(study: Study) -> dict[str, str]:
    """Return the key of every defence, or of the sweep that it is a member of."""
    members = {member: f"sweeps.{name}" for name, of in study.families().items() for member in of}
    return {name: f"defences.{name}" for name in study.defences} | members


def images(plan: AnyPlan) -> Finding:
    """Return the finding about a study's images: whether they exist, or are prepared already."""
    config, subject = plan.study.data, f"data {plan.study.data.source}"
    if not is_lost(prepare_job(plan), plan.layout.prepared_facts, {}):
        return Finding(OK, subject, f"prepared already: {plan.layout.data}")
    if config.source not in ("folder", *DOWNLOADS):  # the digits, or a source added by a user
        return Finding(OK, subject, "read by `cemlib prepare`")
    return _images(subject, config, config.root or os.environ.get("CEMLIB_DATA") or None)


def _images(subject: str, config: DataConfig, named: str | None) -> Finding:
    if config.source == "folder":
        return _folder(subject, config, Path(named).expanduser() if named else None)
    place = Path(named or "data").expanduser()
    if all((place / part).is_dir() for part in ("train", "test")):
        return _folder(subject, config, place)
    if named is not None and not place.is_dir():
        by = "data.root" if config.root else "CEMLIB_DATA"
        advice = f"set {by} to the folder of the images"
        return Finding(PROBLEM, subject, f"{place}: no such folder", advice)
    download = place / DOWNLOADS[config.source]
    if not download.exists():
        advice = "`cemlib prepare` downloads them, or set CEMLIB_DATA to a folder that has them"
        return Finding(WARNING, subject, f"{download}: not there yet", advice)
    return Finding(OK, subject, f"{download}; `cemlib prepare` reads them")


def _folder(subject: str, config: DataConfig, place: Path | None) -> Finding:
    """Check classes and names of files; `cemlib prepare` reads the images."""
    from cemlib.data.folder import class_files  # imports torch

    try:
        train, _ = class_files(config, place)
    except (FileError, OSError) as error:
        found, _, advice = str(error).partition("; ")
        return Finding(PROBLEM, subject, found, advice)
    return Finding(OK, subject, f"{len(train)} classes in {place}")
