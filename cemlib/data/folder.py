"""Images in class folders: `train/<class>/*` and `test/<class>/*`, or `<class>/*` alone."""

import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import torch
from torch import Tensor

from cemlib.config.data import DataConfig
from cemlib.data.prepared import Split
from cemlib.data.raw import DataError, Raw, shown

if TYPE_CHECKING:
    from cemlib.data.images import Pixels

ClassFiles: TypeAlias = dict[str, list[Path]]
SHOWN = 5  # damaged files named in one message
DECODERS = 4  # threads; with more, small images only wait for the interpreter lock


def folder(config: DataConfig, root: Path | None) -> Raw:
    """Read an image folder, its classes and files in the order of their names.

    Raises:
        DataError: as `class_files` does, or for images that cannot be decoded (all are tried).
    """
    import PIL

    train, test = class_files(config, root)
    parts = {"images": train} if test is None else {"train": train, "test": test}
    paths = [path for part in parts.values() for files in part.values() for path in files]
    labels = {name: _labels(part) for name, part in parts.items()}
    counts = {name: len(each) for name, each in labels.items()}
    images = torch.split(_read(paths, config), [*counts.values()])
    splits = [Split(*each) for each in zip(images, labels.values(), strict=True)]
    layout = "one folder" if test is None else "train and test"
    provenance = {"kind": "image folder", "layout": layout, **counts, "pillow": PIL.__version__}
    return Raw(splits[0], None if test is None else splits[1], tuple(train), provenance)


def class_files(config: DataConfig, root: Path | None) -> tuple[ClassFiles, ClassFiles | None]:
    """Return the training files and the test files of each class, without opening any.

    Hidden files are ignored, and so are other folders beside `train/` and `test/`. Without these,
    every folder in ``root`` is a class, and the second result is None.

    Raises:
        DataError: for a missing folder, `train/` without `test/`, a class that is empty or too
            small, files without an image suffix, or classes that differ between train and test.
    """
    if root is None:
        raise DataError(
            "data.source 'folder' needs a place; set data.root or the environment variable "
            "CEMLIB_DATA to a folder of class folders"
        )
    if not root.is_dir():
        raise DataError(
            f"{shown(root)}: no such folder; set data.root or CEMLIB_DATA to the images"
        )
    if not (root / "train").is_dir():
        return _list_classes(root, config.min_per_class, config.classes), None
    if not (root / "test").is_dir():
        raise DataError(
            f"{shown(root)}: found train/ but no test/; add test/<class>/, or set data.root to "
            f"{shown(root / 'train')} to have a test split taken from it (data.test_fraction)"
        )
    train = _list_classes(root / "train", config.min_per_class, config.classes)
    test = _list_classes(root / "test", 1, config.classes)
    if train.keys() != test.keys():
        found = [{e.name for e in visible(root / p) if e.is_dir()} for p in ("train", "test")]
        only_train, only_test = sorted(found[0] - found[1]), sorted(found[1] - found[0])
        raise DataError(
            f"{shown(root)}: train and test have different classes (only in train: {only_train}, "
            f"only in test: {only_test}); rename or add folders so that both have the same"
        )
    return train, test


def _list_classes(place: Path, at_least: int, classes: int | None) -> ClassFiles:
    """Return the files of the first classes, or of all, without opening the other folders."""
    entries = visible(place)
    folders = [entry for entry in entries if entry.is_dir()]
    for entry in entries:
        if entry.is_symlink() and not entry.exists():  # else its class would be missing unnoticed
            raise DataError(f"{shown(entry)}: a broken symbolic link; fix or remove it")
    for entry in folders:
        if any("\ud800" <= sign <= "\udfff" for sign in entry.name):
            raise DataError(f"{shown(entry)}: the name is not UTF-8; rename the folder")
    if len(folders) < 2:
        found = ", ".join(shown(entry.name) for entry in folders) or "none"
        raise DataError(
            f"{shown(place)}: expected a folder for each of two or more classes, found {found}; "
            "set data.root or CEMLIB_DATA to a folder of such folders, or of train/ and test/ with "
            "them"
        )
    return {entry.name: _list_images(entry, at_least) for entry in folders[:classes]}


def _list_images(place: Path, at_least: int) -> list[Path]:
    from cemlib.data.images import SUFFIXES

    entries = visible(place)
    inner = next((entry for entry in entries if entry.is_dir()), None)
    if inner is not None:
        raise DataError(
            f"{shown(inner)}: a folder inside a class folder; images must lie directly in their "
            f"class folder (if {shown(place.name)} is a whole image set, set data.root to "
            f"{shown(place)})"
        )
    strange = [entry for entry in entries if entry.suffix.lower() not in SUFFIXES]
    if strange:
        names = ", ".join(shown(entry.name) for entry in strange[:SHOWN])
        raise DataError(
            f"{shown(place)}: {len(strange)} files of an unknown kind, such as {names}; convert or "
            f"remove them (known: {' '.join(sorted(SUFFIXES))})"
        )
    if len(entries) < at_least:
        raise DataError(
            f"{shown(place)}: {len(entries)} images in this class, {at_least} or more are needed; "
            "add images, remove the class or lower data.min_per_class"
        )
    return entries


def visible(place: Path) -> list[Path]:
    """Return the entries of a folder without hidden files, by name."""
    hidden = ("Thumbs.db", "desktop.ini")
    entries = (e for e in place.iterdir() if not e.name.startswith(".") and e.name not in hidden)
    return sorted(entries, key=lambda entry: entry.name)


def _labels(files: ClassFiles) -> Tensor:
    counts = torch.tensor([len(paths) for paths in files.values()])
    return torch.repeat_interleave(torch.arange(len(files)), counts)


def _read(paths: Sequence[Path], config: DataConfig) -> Tensor:
    """Decode files in threads, in the order of ``paths``: large images gain, small lose little."""
    from tqdm import tqdm

    from cemlib.data.images import read_image, stack

    def decoded(path: Path) -> "Pixels | DataError":
        try:
            return read_image(path, config.image_size, config.channels)
        except DataError as error:
            return error

    with warnings.catch_warnings(), ThreadPoolExecutor(DECODERS) as pool:
        # Pillow warns of odd metadata without naming the file; what does not decode is an error.
        warnings.simplefilter("ignore", UserWarning)
        results = pool.map(decoded, paths)
        found = list(tqdm(results, "reading images", len(paths), unit="image", disable=None))
    if damaged := [each for each in found if isinstance(each, DataError)]:
        raise _damaged(damaged)
    return stack([each for each in found if not isinstance(each, DataError)])


def _damaged(errors: Sequence[DataError]) -> DataError:
    if len(errors) == 1:
        return errors[0]
    lines = [str(error) for error in errors[:SHOWN]]
    more = [f"and {len(errors) - SHOWN} more"] if len(errors) > SHOWN else []
    return DataError("\n".join([f"{len(errors)} damaged images:", *lines, *more]))
