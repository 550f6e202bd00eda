"""Gradient inversion: what a gradient that a client shares reveals of the client's images.

An attack is one file with its mathematics, one line in `ATTACKS`, and a section in
`cemlib.config.federated_attacks`.
"""

from collections.abc import Callable

from cemlib.federated.inversion.cosine import cosine
from cemlib.federated.inversion.dlg import dlg, idlg
from cemlib.federated.inversion.features import mean_image, near_means
from cemlib.federated.inversion.search import Search

ATTACKS: dict[str, Callable[..., Search]] = {
    "dlg": dlg,
    "idlg": idlg,
    "cosine": cosine,
    "features": near_means,
    "combined": near_means,
    "mean_image": mean_image,
}
"""Attacks by `kind`: functions of the network, the shared gradients and settings."""
