"""Published image sets, downloaded by torchvision or read from an image folder.

CIFAR-10 and CIFAR-100: A. Krizhevsky, "Learning Multiple Layers of Features from Tiny Images",
2009. MNIST: Y. LeCun et al., "Gradient-Based Learning Applied to Document Recognition", 1998.
Fashion-MNIST: H. Xiao et al., 2017. SVHN: Y. Netzer et al., "Reading Digits in Natural Images with
Unsupervised Feature Learning", 2011.

CIFAR's files are pickles, which can run programs. torchvision compares the MD5 sum of each with the
published one before it opens it, and that of every download before it unpacks it.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from cemlib.config.data import DataConfig
from cemlib.data.folder import folder, visible
from cemlib.data.prepared import Split
from cemlib.data.raw import DataError, Raw, check_split, shown

DEFAULT_ROOT = Path("data")


def cifar10(config: DataConfig, root: Path | None) -> Raw:
    """Read CIFAR-10: 50,000 + 10,000 colour images of 32x32 in 10 classes."""
    return _load("CIFAR10", 10, config, root)


def cifar100(config: DataConfig, root: Path | None) -> Raw:
    """Read CIFAR-100: 50,000 + 10,000 colour images of 32x32 in 100 classes."""
    return _load("CIFAR100", 100, config, root)


def mnist(config: DataConfig, root: Path | None) -> Raw:
    """Read MNIST: 60,000 + 10,000 grey images of 28x28 in 10 classes."""
    return _load("MNIST", 10, config, root)


def fashion_mnist(config: DataConfig, root: Path | None) -> Raw:
    """Read Fashion-MNIST: 60,000 + 10,000 grey images of 28x28 in 10 classes."""
    return _load("FashionMNIST", 10, config, root)


def svhn(config: DataConfig, root: Path | None) -> Raw:
    """Read SVHN, cropped digits: 73,257 + 26,032 colour images of 32x32 in 10 classes."""
    return _load("SVHN", 10, config, root)


def _official(kind: str, base: Path, train: bool) -> tuple[Any, Any, tuple[str, ...]]:
    """Return torchvision's dataset of an official split, its labels and the names of classes."""
    from torchvision import datasets

    old = base / kind / "processed"  # where old torchvisions put MNIST, and new ones still look
    if any(old.glob("*.pt")):
        raise DataError(
            f"{shown(old)}: pickles of an old torchvision, which have no published checksum; remove"
            " this folder (the published files lie in raw/ beside it, or are downloaded)"
        )
    if kind == "SVHN":
        digits = datasets.SVHN(base, split="train" if train else "test", download=True)
        return digits, digits.labels, tuple("0123456789")
    held = getattr(datasets, kind)(base, train=train, download=True)
    return held, held.targets, tuple(held.classes)


def _load(kind: str, num_classes: int, config: DataConfig, root: Path | None) -> Raw:
    """Read an image folder if ``root`` is one, else torchvision's files, downloaded if missing."""
    base = root or DEFAULT_ROOT
    if (base / "train").is_dir() and (base / "test").is_dir():
        return _from_folder(num_classes, config, base)
    import torchvision

    (train, classes), (test, _) = (_fetched(kind, base, part, config) for part in (True, False))
    origin = {"kind": "torchvision", "set": config.source, "torchvision": torchvision.__version__}
    return Raw(train, test, classes, origin)


def _from_folder(num_classes: int, config: DataConfig, base: Path) -> Raw:
    found = sum(entry.is_dir() for entry in visible(base / "train"))
    if found != num_classes:
        raise DataError(
            f"{shown(base / 'train')}: {config.source} has {num_classes} classes, found {found} "
            "folders; set data.root or CEMLIB_DATA to the right set, or use data.source: folder"
        )
    raw = folder(config, base)
    return replace(raw, provenance={"set": config.source, **raw.provenance})


def _fetched(
    kind: str, base: Path, train: bool, config: DataConfig
) -> tuple[Split, tuple[str, ...]]:
    """Return an official split, resized, and the names of its classes."""
    from cemlib.data.images import stack, to_array

    try:
        held, labels, classes = _official(kind, base, train)
        # By index: a loop over the dataset would end without an error at a missing label.
        images = (held[row][0] for row in range(len(held)))
        arrays = [to_array(image, config.image_size, config.channels) for image in images]
        split = Split(stack(arrays), torch.as_tensor(labels))
        check_split(f"{shown(base)}: {config.source}", split, len(classes))
        return split, classes
    except DataError:
        raise
    except Exception as error:  # torchvision's readers raise nearly anything on damaged files
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise DataError(
            f"{shown(base)}: {config.source} is not there and could not be downloaded, or is "
            f"damaged ({reason}); connect to the network and delete what is damaged, or set "
            "data.root or CEMLIB_DATA to a folder that holds torchvision's files or "
            "train/<class>/ and test/<class>/"
        ) from error
