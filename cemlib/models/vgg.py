"""VGG11 with batch normalisation, a bottleneck and a sigmoid at the cut ("vgg11_bn_sgm").

Simonyan and Zisserman, "Very deep convolutional networks for large-scale image recognition", 2015;
the bottleneck as in Xia et al., "Theoretical insights in model inversion robustness and conditional
entropy maximization for collaborative inference systems", CVPR 2025.
"""

from torch import nn

from cemlib.models.layers import Entry
from cemlib.models.split import Shape, SplitModel, split_stack

ENTRIES: tuple[Entry, ...] = (64, "M", 128, "M", 256, 256, "M", 512, 512, "M", 512, 512, "M")


def vgg11(shape: Shape) -> SplitModel:
    """Build VGG11-BN for images whose side is a multiple of 32; it averages them to 1x1.

    At 32x32, 3 channels, 10 classes and cut 4: client 85,256 parameters (347,400 with sparse
    coding), server 9,689,738, features 8x8x8.
    """
    side = shape.image_size // 32
    classifier = nn.Sequential(
        nn.AvgPool2d(side) if side > 1 else nn.Identity(),
        nn.Flatten(),
        nn.Dropout(shape.dropout),
        nn.Linear(512, 512),
        nn.ReLU(),
        nn.Dropout(shape.dropout),
        nn.Linear(512, 512),
        nn.ReLU(),
        nn.Linear(512, shape.num_classes),
    )
    return split_stack(ENTRIES, shape, classifier)
