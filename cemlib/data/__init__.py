"""Images: their sources, splits, prepared files, batches and augmentation.

docs/extending.md says how to add a source.
"""

from cemlib.data.digits import digits
from cemlib.data.folder import folder
from cemlib.data.raw import DataError
from cemlib.data.torchvision_sets import cifar10, cifar100, fashion_mnist, mnist, svhn

__all__ = ["SOURCES", "DataError"]

SOURCES = {
    "digits": digits,
    "folder": folder,
    "cifar10": cifar10,
    "cifar100": cifar100,
    "mnist": mnist,
    "fashion_mnist": fashion_mnist,
    "svhn": svhn,
}
"""The function behind each name of a source."""
