"""The epoch that a training deploys, and its scores."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from cemlib.config.study import TrainConfig
from cemlib.data.prepared import Prepared
from cemlib.numerics.seeds import generator
from cemlib.training.step import Defended, Row

SCORES = ("top1", "test_loss", "val_top1", "leakage_nats", "leakage_images", "chance_top1")
MOST = 2048  # largest number of images per class that the leakage estimate asks for


@dataclass
class Selection:
    """The best epoch so far; with `select: last` the last one, without a copy.

    Only `final_scores` and `select: best_test` use the test images.
    """

    settings: TrainConfig
    defended: Defended
    data: Prepared
    seed: int
    epoch: int = 0
    score: float = -1.0
    weights: dict[str, Tensor] = field(default_factory=dict)

    def consider(self, row: Row) -> None:
        """Keep the weights after an epoch with the whole defence, if it is the best so far."""
        number, deployed = row["epoch"], self.defended.deployed
        if self.settings.select == "last" or not self._complete(number):
            return
        score = row["val_top1"]
        if self.settings.select == "best_test":
            test = self.data.test
            noise = generator(self.seed, "test_noise", number, test.images.device)
            score = row["test_top1"] = deployed.score(test.images, test.labels, noise)["top1"]
        if score > self.score:
            weights = {name: tensor.clone() for name, tensor in deployed.model.state_dict().items()}
            self.epoch, self.score, self.weights = number, score, weights

    def _complete(self, number: int) -> bool:
        """Return whether the surrogate acts and pruning is done."""
        surrogate, pruning = self.defended.surrogate, self.defended.pruning
        acts = surrogate is None or number >= surrogate.start_epoch
        return acts and (pruning is None or number > pruning.epoch)

    def deploy(self) -> int:
        """Load the weights of the selected epoch, and return its number."""
        if not self.weights:
            return self.settings.epochs
        self.defended.deployed.model.load_state_dict(self.weights)
        return self.epoch

    def final_scores(self) -> dict[str, float]:
        """Return the scores of the deployed epoch, by the names of `SCORES`.

        Accuracies are fractions: `top1` is for the test images, and `chance_top1` for always
        answering the most frequent class. `leakage_nats`, infinite without noise, is estimated from
        `leakage_images` images: the test images, and as many training images as it takes to reach
        min(D, `MOST`) per class on average, as the estimate needs more images than dimensions.
        """
        test, val, deployed = self.data.test, self.data.val, self.defended.deployed
        device = test.images.device
        features, labels = deployed.features(test.images), test.labels
        test_noise = generator(self.seed, "test_noise", device=device)
        on_test = deployed.score_features(features, labels, test_noise)
        val_noise = generator(self.seed, "val_noise", device=device)
        on_val = deployed.score(val.images, val.labels, val_noise)
        missing = len(self.data.classes) * min(features[0].numel(), MOST) - len(features)
        if missing > 0:
            more = deployed.features(self.data.train.images[:missing])
            features = torch.cat([features, more])
            labels = torch.cat([labels, self.data.train.labels[:missing]])
        leakage = deployed.channel.leakage(features.flatten(1), labels)
        chance = test.labels.bincount().max().item() / len(test.labels)
        values = (on_test["top1"], on_test["loss"], on_val["top1"], leakage, len(labels), chance)
        return dict(zip(SCORES, values, strict=True))
