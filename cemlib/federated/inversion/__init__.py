"""Gradient inversion: what a gradient that a client shares reveals of the client's images."""

from collections.abc import Callable

from cemlib.federated.inversion.combined import combined, mean_image
from cemlib.federated.inversion.cosine import cosine
from cemlib.federated.inversion.dlg import dlg, idlg
from cemlib.federated.inversion.search import Answer

ATTACKS: dict[str, Callable[..., Answer]] = {
    "dlg": dlg,
    "idlg": idlg,
    "cosine": cosine,
    "combined": combined,
    "mean_image": mean_image,
}
"""Attacks by `kind`: functions of the network, the shared gradients, settings and seeds (P,)."""
