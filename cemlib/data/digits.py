"""scikit-learn's handwritten digits: 1,797 real images, available offline.

E. Alpaydin and C. Kaynak, "Optical Recognition of Handwritten Digits", UCI, 1998. The originals
are 32x32 bitmaps; each of the 8x8 stored values counts the ink in a block of 4x4 (0 to 16).
"""

from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from cemlib.config.data import DataConfig
from cemlib.data.prepared import Split
from cemlib.data.raw import Raw

INK = 16


def digits(config: DataConfig, root: Path | None) -> Raw:  # noqa: ARG001 - the images are bundled
    """Return all 1,797 digits, white ink on black, without a test split."""
    import sklearn
    from sklearn.datasets import load_digits

    bundle = load_digits()
    images = enlarge(torch.from_numpy(bundle.images), config.image_size)
    images = images.expand(-1, config.channels or 1, -1, -1).contiguous()
    return Raw(
        Split(images, torch.from_numpy(bundle.target).long()),
        None,
        tuple(str(name) for name in bundle.target_names),
        {"kind": "scikit-learn digits", "scikit-learn": sklearn.__version__},
    )


def enlarge(ink: Tensor, size: int) -> Tensor:
    """Return ink counts (N, 8, 8) in [0, 16] as uint8 images (N, 1, size, size).

    Bicubic interpolation gives strokes smooth edges; bilinear shows the 8x8 lattice as diamonds,
    and repeated pixels show it as blocks. The overshoot is clipped; size 8 is exact.
    """
    scaled = ink[:, None].double() * (255 / INK)
    smooth = interpolate(scaled, size=(size, size), mode="bicubic", antialias=True)
    return smooth.round().clamp(0, 255).to(torch.uint8)
