"""What a finished training is worth, and what is shown of it on the way."""

from cemlib.progress import Numbers
from cemlib.seeds import generator
from cemlib.training.trainer import Row, Trainer

SCORES = ("top1", "test_loss", "val_top1", "leakage_nats")


def scores(trainer: Trainer) -> dict[str, float]:
    """Accuracy of the deployed epoch on test and val, and the leakage bound on test features.

    Args:
        trainer: After its last epoch, with the selected one deployed.

    Returns:
        `SCORES`: fractions, the cross-entropy, and nats (infinite without noise).
    """
    test, val, deployed = trainer.data.test, trainer.data.val, trainer.deployed
    test_noise = generator(trainer.seed, "test_noise", device=trainer.device)
    val_noise = generator(trainer.seed, "val_noise", device=trainer.device)
    on_test = deployed.score(test.images, test.labels, test_noise)
    on_val = deployed.score(val.images, val.labels, val_noise)
    features = deployed.features(test.images)
    leakage = deployed.leakage(features, test.labels)
    values = (on_test["top1"], on_test["loss"], on_val["top1"], leakage)
    return dict(zip(SCORES, values, strict=True))


def shown(row: Row) -> Numbers:
    """Of an epoch's row of the history, what the progress shows."""
    return {"loss": row["train_loss"], "val_top1": row["val_top1"]}
