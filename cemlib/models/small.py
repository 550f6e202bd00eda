"""A small network of VGG's shape for small images and quick studies."""

from torch import nn

from cemlib.models.layers import Entry
from cemlib.models.split import Shape, SplitModel, split_stack

ENTRIES: tuple[Entry, ...] = (16, "M", 32, "M", 64, "M")


def small(shape: Shape) -> SplitModel:
    """Build three convolution blocks for images whose side is a multiple of 8.

    At 16x16 the features are 8x8x8 (cut 3) or 8x4x4 (cut 4).
    """
    side = shape.image_size // 8
    classifier = nn.Sequential(
        nn.Flatten(),
        nn.Dropout(shape.dropout),
        nn.Linear(64 * side * side, 128),
        nn.ReLU(),
        nn.Linear(128, shape.num_classes),
    )
    return split_stack(ENTRIES, shape, classifier)
