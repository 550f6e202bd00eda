"""Score a finished training."""

import torch
from torch import Tensor

from cemlib.numerics.seeds import generator
from cemlib.training.trainer import Trainer

SCORES = ("top1", "test_loss", "val_top1", "leakage_nats", "leakage_images", "chance_top1")
SHOWN = ("train_loss", "val_top1")  # of every epoch by the progress
MOST = 2048  # images of a class to estimate the leakage from, where there are not more to test


def scores(trainer: Trainer) -> dict[str, float]:
    """Return accuracy of the deployed epoch on test and val, and the estimated leakage bound.

    The bound needs more images than the features have dimensions to be sure of a class, see
    `cemlib.numerics.leakage`. It is taken of all test images, and where these are fewer than D for
    each class on average (or `MOST`), of so many training images beside them.

    Args:
        trainer: After its last epoch, with the selected one deployed.

    Returns:
        `SCORES`: fractions, the cross-entropy, nats (infinite without noise), from how many images
        these are estimated, and the top-1 of always naming the most frequent class.
    """
    test, val, deployed = trainer.data.test, trainer.data.val, trainer.deployed
    test_noise = generator(trainer.seed, "test_noise", device=trainer.device)
    val_noise = generator(trainer.seed, "val_noise", device=trainer.device)
    features = deployed.features(test.images)
    on_test = deployed.score_features(features, test.labels, test_noise)
    on_val = deployed.score(val.images, val.labels, val_noise)
    enough, labels = _filled_up(trainer, features)
    leakage = deployed.leakage(enough, labels)
    chance = test.labels.bincount().max().item() / len(test.labels)
    values = (on_test["top1"], on_test["loss"], on_val["top1"], leakage, len(labels), chance)
    return dict(zip(SCORES, values, strict=True))


def _filled_up(trainer: Trainer, features: Tensor) -> tuple[Tensor, Tensor]:
    """Return test features and labels, with those of training images until they are enough."""
    data = trainer.data
    wanted = len(data.classes) * min(features[0].numel(), MOST)
    missing = max(0, wanted - len(features))
    if missing == 0:
        return features, data.test.labels
    more = trainer.deployed.features(data.train.images[:missing])
    labels = torch.cat([data.test.labels, data.train.labels[:missing]])
    return torch.cat([features, more]), labels
