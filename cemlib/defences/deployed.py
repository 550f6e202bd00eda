"""A deployed classifier: the split model in eval mode, and its release channel."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cemlib.data.prepared import unit
from cemlib.defences.channels import build as build_channel
from cemlib.defences.channels.base import Channel
from cemlib.models import build
from cemlib.models.layers import SparseCoding
from cemlib.models.split import SplitModel
from cemlib.records.files import FileError, load_tensors, read_record
from cemlib.records.layout import RunFolder
from cemlib.records.seal import checked

CHUNK = 512  # images per forward pass


@dataclass(frozen=True)
class Deployed:
    """A split model and its release channel, the same for users and attackers."""

    model: SplitModel
    channel: Channel

    @property
    def coding(self) -> tuple[nn.Module, SparseCoding] | None:
        """Return the model's `coding` if releases are its output plus Gaussian noise."""
        return self.model.coding if self.channel.plain else None

    def features(self, images: Tensor) -> Tensor:
        """Return clean float32 features (N, c, h, w) of images (N, C, H, W), uint8 or in [0, 1]."""
        self.model.eval()
        with torch.no_grad():
            parts = [self.model.encoder(unit(part)).float() for part in torch.split(images, CHUNK)]
        return torch.cat(parts)

    def logits(self, features: Tensor, noise: torch.Generator) -> Tensor:
        """Return the server's logits (N, classes) of releases of clean features (N, c, h, w)."""
        self.model.eval()
        with torch.no_grad():
            released = self.channel(features, noise)
            parts = [self.model.head(part).float() for part in torch.split(released, CHUNK)]
        return torch.cat(parts)

    def score(self, images: Tensor, labels: Tensor, noise: torch.Generator) -> dict[str, float]:
        """Return cross-entropy (`loss`) and accuracy (`top1`, a fraction) on uint8 images."""
        return self.score_features(self.features(images), labels, noise)

    def score_features(
        self, features: Tensor, labels: Tensor, noise: torch.Generator
    ) -> dict[str, float]:
        """Return the scores from clean features (N, c, h, w)."""
        logits = self.logits(features, noise)
        top1 = (logits.argmax(1) == labels).float().mean()
        return {"loss": F.cross_entropy(logits, labels).item(), "top1": top1.item()}


def load_deployed(run: RunFolder, device: torch.device) -> Deployed:
    """Load the classifier of a finished run from its folder.

    Raises:
        FileError: if files are missing or damaged, or do not fit together.
    """
    config = read_record(checked(run.config), ("network", "defence"))
    model = build(**config["network"])
    try:
        model.load_state_dict(load_tensors(checked(run.model)))
    except RuntimeError as error:
        raise FileError(f"{run.model}: does not fit {run.config} ({error}); rerun it") from error
    defence = config["defence"]
    channel = build_channel(noise_std=defence["noise_std"], **defence["channel"])
    return Deployed(model.to(device).to(memory_format=torch.channels_last).eval(), channel)
