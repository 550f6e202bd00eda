"""The title, unit, scale and better side of every score of a study.

Tables, figures, sentences, MLflow and the command line take them from here, and also the mark of a
number that rests on an attack which had not converged (by the rule of `cemlib.attacks.budget`).
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

MARK = "†"
NOTE = (
    f"{MARK} the attack quoted had not converged on at least one seed: a longer one may find more;"
    " no verdict is drawn"
)


@dataclass(frozen=True)
class Score:
    """The format of a score, and the direction in which it favours the defender."""

    title: str  # in tables
    better: Literal["higher", "lower"]  # for the defender
    decimals: int  # that it is written with
    unit: str = ""  # of the written value
    scale: int = 1  # factor from the value in a record to the written value
    digits: int = 0  # least number of significant ones of the smallest value in a column
    of_runs: bool = False  # whether it is a score of the classifier, not of an attack
    phrase: str = ""  # name in sentences; empty for one made from the title
    gain: str = "private"  # adjective for the better side, as in "higher = more private"
    bounds: tuple[float, float] = (-math.inf, math.inf)  # possible values, in the unit of records

    @property
    def heading(self) -> str:
        """Return the title with unit and an arrow to the better side, for the head of a column."""
        return f"{_with_unit(self.title, self.unit)} {'↑' if self.better == 'higher' else '↓'}"

    @property
    def subject(self) -> str:
        """Return the name in sentences; an attack's score is that of the worst case."""
        return self.phrase or (self.title if self.of_runs else f"worst-case {self.title}")

    @property
    def difference(self) -> str:
        """Return the subject with the unit of a difference, for the head of a table of them."""
        return _with_unit(self.subject, "percentage points" if self.unit == "%" else self.unit)

    @property
    def side(self) -> str:
        """Return the better side in words."""
        return f"{self.better} = more {self.gain}"

    @property
    def axis(self) -> str:
        """Return the subject with unit and the better side in words, for the axis of a figure."""
        return f"{_with_unit(self.subject, self.unit)}\n({self.side})"

    def places(self, values: Iterable[float]) -> int:
        """Return enough decimals for the smallest value to have its significant digits."""
        positive = [value for value in values if math.isfinite(value) and value > 0]
        if not (self.digits and positive):
            return self.decimals
        return max(self.decimals, decimals(min(positive), self.digits))


def decimals(value: float, digits: int = 3) -> int:
    """Return the number of decimals that a value needs for a number of significant digits."""
    return max(0, digits - 1 - math.floor(math.log10(abs(value)))) if value else 0


def _with_unit(title: str, unit: str) -> str:
    return f"{title} [{unit}]" if unit else title


SCORES = {
    "top1": Score(
        "top-1",
        "higher",
        2,
        "%",
        100,
        of_runs=True,
        phrase="accuracy",
        gain="accurate",
        bounds=(0, 1),
    ),
    "leakage_nats": Score("leakage bound", "lower", 1, "nats", of_runs=True),
    "mse": Score("MSE", "higher", 4, digits=3, bounds=(0, math.inf)),
    "ssim": Score(
        "SSIM", "lower", 3, phrase="SSIM of the attack with the lowest MSE", bounds=(-1, 1)
    ),
    "psnr": Score("PSNR", "lower", 2, "dB", phrase="PSNR of the attack with the lowest MSE"),
    "recon_top1": Score(
        "identified",
        "lower",
        2,
        "%",
        100,
        phrase="largest identified share of any attack",
        bounds=(0, 1),
    ),
}
"""Every score that a defence is judged by, in the order of the tables."""

ROUNDING = 1e-5  # rounding error of a mean in float32
TESTED = "mse"  # the one score of the worst case with significance tests; others have intervals
RECOGNITION = ("recon_top1", "recon_top1_victim", "judge_top1")
IDENTIFICATION = "recon_top1"
UNBOUNDED = ("leakage_nats", "psnr", "psnr_of_mean_mse")  # null in a record means infinite
RUN_SCORES = tuple(name for name, score in SCORES.items() if score.of_runs)
ATTACK_SCORES = tuple(n for n, s in SCORES.items() if not s.of_runs and n != IDENTIFICATION)


def impossible(record: Mapping[str, Any]) -> Iterator[str]:
    """Yield a message for each score of a record that is out of its bounds.

    >>> list(impossible({"top1": -5, "mse": 0.1}))
    ['top1 is -5, not between 0 and 1']
    """
    for name, score in SCORES.items():
        value, (least, most) = record.get(name), score.bounds
        if isinstance(value, int | float) and not least - ROUNDING <= value <= most + ROUNDING:
            yield f"{name} is {value}, not between {least} and {most}"


def marked(text: str, unconverged: bool) -> str:
    """Return a text, followed by the mark if it rests on an unconverged attack."""
    return text + MARK if unconverged else text
