"""Training in memory, for a notebook or a program: the trainer of the jobs, without their files."""

from dataclasses import dataclass
from typing import Any

import torch

from cemlib.config import ConfigError, Study
from cemlib.config.study import JUDGE, JUDGE_SEED
from cemlib.data.prepared import Prepared
from cemlib.defences.deployed import Deployed
from cemlib.numerics.precision import set_up
from cemlib.records.progress import progress
from cemlib.training.own import OwnSurrogate
from cemlib.training.scores import SHOWN, scores
from cemlib.training.setup import Network, Setup


@dataclass(frozen=True)
class Trained:
    """A classifier, trained behind its defence and deployed.

    Attributes:
        defence: Name of the defence in the study, or `judge`.
        seed: Seed of everything random in it.
        deployed: The split model in its deployed epoch, and its release channel.
        history: One row for every epoch, as in a run's `history.jsonl`.
        epoch: The deployed epoch.
        scores: `top1` and `val_top1` (fractions), `test_loss` (cross-entropy), `leakage_nats` and
            from how many images that is estimated, `leakage_images`.
    """

    defence: str
    seed: int
    deployed: Deployed
    history: list[dict[str, Any]]
    epoch: int
    scores: dict[str, float]


def fit(
    study: Study,
    defence: str,
    data: Prepared,
    network: Network,
    *,
    seed: int | None = None,
    surrogate: OwnSurrogate | None = None,
) -> Trained:
    """Train one defence of a study on data and a network in memory; nothing is written.

    What comes out is, bit for bit, what the training job makes of the same settings, data, network,
    seed and threads. The study's sections `data` and `model` are not read. torch's number of CPU
    threads is set to the study's `threads`, and torch's global random state is changed.

    Args:
        study: The settings, from `cemlib.config.parse`.
        defence: One of its defences, or `judge`, the undefended classifier by which attacks are
            scored.
        data: From `cemlib.data.tensors.from_tensors`, or another preparation; the training is
            computed where it lies (`data.to("cuda")`).
        network: Makes the split network; called once, with torch's random state set from the seed.
            It should make a new one each time: a network made before would be trained on.
        seed: Default: the study's first, and for the judge one of its own.
        surrogate: Takes the place of the defence's surrogate.

    Raises:
        ConfigError: if there is no such defence, or it does not fit the network or the data.
        DivergedError: if a loss is no longer a number.
    """
    if defence != JUDGE and defence not in study.defences:
        raise ConfigError(f"no defence {defence!r} in this study (it has {list(study.defences)})")
    set_up(data.train.images.device, study.threads)
    seed = _default_seed(study, defence) if seed is None else seed
    trainer = Setup(study, defence, seed).begin(data, network, surrogate)
    check_logits(trainer.deployed, data)
    with progress(f"train {defence} seed{seed}", trainer.settings.epochs) as report:
        for row in trainer.remaining():
            report(row["epoch"], {name: row[name] for name in SHOWN})
    epoch = trainer.deploy()
    return Trained(defence, seed, trainer.deployed, trainer.history, epoch, scores(trainer))


def _default_seed(study: Study, defence: str) -> int:
    return JUDGE_SEED if defence == JUDGE else study.seeds[0]


def check_logits(deployed: Deployed, data: Prepared, name: str = "model") -> None:
    """Check a network from elsewhere, perhaps made for other classes; it draws nothing here.

    Raises:
        ConfigError: it gives no logits for all classes of the data.
    """
    features = deployed.features(data.train.images[:1])
    logits = deployed.logits(features, torch.Generator(features.device))
    wanted = len(data.classes)
    if logits.ndim != 2 or logits.shape[1] < wanted:
        raise ConfigError(
            f"{name}: gives {tuple(logits.shape)} for one image; the data have {wanted} classes, so"
            f" it must give logits (1, {wanted})"
        )
