"""cemlib: measure how well a defence keeps images private in split (edge-cloud) inference."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cemlib import surrogates
    from cemlib.evaluation.audit import audit
    from cemlib.training.fit import defend

__version__ = "0.1.0"
__all__ = ["audit", "defend", "surrogates"]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: planning must not wait for torch."""
    match name:
        case "audit":
            return import_module("cemlib.evaluation.audit").audit
        case "defend":
            return import_module("cemlib.training.fit").defend
        case "surrogates":
            return import_module("cemlib.surrogates")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
