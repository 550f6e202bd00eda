"""Training penalties: defences that add to the training loss and are not deployed.

To add one, write a file with its formula, its source and how it fails, and a class derived from
`Penalty`; add a line to `PENALTIES` and its options to `cemlib.config.defences`.
"""

from cemlib.defences.penalties.arl import AdversarialDecoder
from cemlib.defences.penalties.base import Penalty
from cemlib.defences.penalties.bido import BiDO
from cemlib.defences.penalties.fisher import Fisher
from cemlib.defences.penalties.nopeek import NoPeek

__all__ = ["PENALTIES", "Penalty"]

PENALTIES: dict[str, type[Penalty]] = {
    "nopeek": NoPeek,
    "bido": BiDO,
    "fisher": Fisher,
    "arl": AdversarialDecoder,
}
"""The class behind each name."""
