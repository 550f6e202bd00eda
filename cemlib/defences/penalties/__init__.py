"""Training penalties: defences that add to the training loss and are not deployed.

docs/extending.md says how to add one.
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
