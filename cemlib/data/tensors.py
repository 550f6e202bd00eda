"""Images in memory as prepared data: the splits and statistics of every source, without files."""

from collections.abc import Sequence

from torch import Tensor

from cemlib.config.data import DataConfig
from cemlib.data.errors import DataError
from cemlib.data.prepare import divided
from cemlib.data.prepared import Prepared
from cemlib.data.raw import Raw


def from_tensors(
    images: Tensor,
    labels: Tensor,
    test_images: Tensor | None = None,
    test_labels: Tensor | None = None,
    *,
    classes: Sequence[str] | None = None,
    config: DataConfig = DataConfig(),  # noqa: B008 - frozen
) -> Prepared:
    """Divide images into train, val and test, as `cemlib prepare` does.

    Args:
        images: uint8 (N, C, H, W) with 1 or 3 channels.
        labels: int64 (N,), from 0 on.
        test_images: uint8 (M, C, H, W) of the same shape; None to hold out a share of `images`.
        test_labels: int64 (M,), with them.
        classes: Names in the order of the labels; default: their numbers.
        config: The section `data` of a study, of which the splits are read (fractions, limits,
            `split_seed`, `min_per_class`); images are taken at the size they have.

    Raises:
        DataError: a tensor has another type or shape, or a class too few images.

    Example:
        >>> import torch
        >>> draws = torch.Generator().manual_seed(0)
        >>> images = torch.randint(256, (40, 3, 16, 16), dtype=torch.uint8, generator=draws)
        >>> data = from_tensors(images, torch.arange(40) % 2)
        >>> len(data.train), len(data.val), len(data.test)
        (27, 3, 10)
    """
    if not len(labels):
        raise DataError(
            "train: there are no labels; give a tensor with an image or more of every class"
        )
    names = classes if classes is not None else range(int(labels.max()) + 1)
    named = tuple(str(name) for name in names)
    raw = Raw(images, labels, test_images, test_labels, named, {"name": "tensors"})
    return divided(raw, config)
