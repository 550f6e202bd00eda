"""Preparing an image folder, against torchvision's loop over it."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from cemlib.bench.scale import Scale
from cemlib.bench.subject import images
from cemlib.bench.timing import Work, alternately, compared
from cemlib.config.data import DataConfig
from cemlib.data.prepare import prepare

AGAINST = "torchvision's ImageFolder, one by one"


def preparation(scale: Scale) -> dict[str, Any]:
    """Reading PNG files; ours also splits them, takes their statistics and looks for duplicates."""
    torch.set_num_threads(scale.threads)
    with TemporaryDirectory() as place:
        root = Path(place)
        _write(scale, root)
        config = DataConfig(source="folder", root=place, image_size=scale.image_size)
        works = [Work(lambda: prepare(config)), Work(lambda: _image_folder(root))]
        ours, reference = alternately(works, max(1, scale.repeats // 3), "cpu")
    found = compared(ours, reference, AGAINST)
    return {"images": scale.images, "threads": scale.threads, "prepare": found}


def _write(scale: Scale, root: Path) -> None:
    made = images(scale.images, scale)
    pixels = made.images.permute(0, 2, 3, 1).squeeze(-1).numpy()
    for index, (picture, label) in enumerate(zip(pixels, made.labels.tolist(), strict=True)):
        folder = root / f"class{label}"
        folder.mkdir(exist_ok=True)
        Image.fromarray(picture).save(folder / f"{index:06d}.png")


def _image_folder(root: Path) -> tuple[Tensor, Tensor]:
    """Images (N, C, H, W) in [0, 1] and labels, as a script would read them."""
    from torchvision.datasets import ImageFolder
    from torchvision.transforms import ToTensor

    pairs = list(ImageFolder(root, transform=ToTensor()))
    return torch.stack([image for image, _ in pairs]), torch.tensor([label for _, label in pairs])
