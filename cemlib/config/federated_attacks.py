"""Configure the gradient inversion attacks.

The field `kind` of a section names its attack; without it, the section's name does.
"""

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from cemlib.config.attacks import with_kinds
from cemlib.config.base import Name, Section


class Linked(Section):
    """Let the attacker link gradients of single images of one class and client."""

    images: int = Field(
        12, ge=2, description="images whose mixtures it sees, including the attacked one"
    )
    rounds: int = Field(
        1, ge=1, description="rounds in which it sees each; one if pseudo images are fixed"
    )


class Inversion(Section):
    """Set the options that every attack has."""

    unmix: bool = Field(
        False,
        description="the attacker knows the ratio of the mixture, and computes from the answer the"
        " best linear guess of the true image",
    )
    linked: Linked | None = Field(
        None,
        description="the attacker averages the linked answers of an image over rounds, solves for"
        " the mean pseudo image from the client's other images, and then guesses linearly",
    )

    @model_validator(mode="after")
    def _one_guess(self) -> Self:
        if self.unmix and self.linked is not None:
            raise ValueError("give either unmix or linked")
        return self


class _Matching(Inversion):
    mask: Literal["ignored", "known", "estimated", "layer"] = Field(
        "ignored",
        description="how the attacker treats a pruned gradient: as if it were complete, with the"
        " known mask, with the mask read off the zeros, or without the last layer's weight",
    )


class _SecondOrder(_Matching):
    iterations: int = Field(200, ge=1, description="evaluations of the gradient distance")


class Dlg(_SecondOrder):
    """Search for image and soft label together, by L-BFGS on the squared distance of gradients."""

    kind: Literal["dlg"] = "dlg"


class Idlg(_SecondOrder):
    """Read the label off the last layer's gradient, then search for the image as in `dlg`."""

    kind: Literal["idlg"] = "idlg"


class Cosine(_Matching):
    """Minimise cosine distance and total variation by signed Adam, with the label as in `idlg`."""

    kind: Literal["cosine"] = "cosine"
    iterations: int = Field(300, ge=1, description="steps of Adam")
    lr: float = Field(0.1, gt=0, description="first learning rate, in units of pixel values")
    tv_weight: float = Field(1e-4, ge=0, description="weight of the total variation")
    prior_weight: float = Field(
        0.0,
        ge=0,
        description="weight of the mean squared distance to the mean image of the inferred class,"
        " from which the descent then starts: for gradients full of noise",
    )


class Combined(_SecondOrder):
    """Match gradients, features in closed form and the mean image of the class at once."""

    kind: Literal["combined"] = "combined"
    prior_weight: float = Field(
        1e-4,
        ge=0,
        description="weight of the mean squared distance to the mean image of the inferred class",
    )


class PriorImage(Inversion):
    """Return the mean image of the inferred class; attacks with larger errors reveal nothing."""

    kind: Literal["mean_image"] = "mean_image"


AnyInversion = Annotated[Dlg | Idlg | Cosine | Combined | PriorImage, Field(discriminator="kind")]


def _standard() -> dict[str, Any]:
    """Return an attack of each kind as published, and those that adapt to the defences."""
    return {
        "dlg": Dlg(),
        "idlg": Idlg(),
        "cosine": Cosine(),
        "idlg_known": Idlg(mask="known"),
        "posterior": Cosine(mask="estimated", tv_weight=1e-3, prior_weight=0.1, iterations=150),
        "combined": Combined(mask="estimated"),
        "combined_unmixed": Combined(mask="estimated", unmix=True),
        "mean_image": PriorImage(),
    }


class InversionStudy(Section):
    """Choose which gradients are attacked, and how."""

    images: int = Field(16, ge=2, description="images of the test split that are attacked")
    batch_size: int = Field(1, ge=1, description="images of a step behind an attacked gradient")
    local_steps: int = Field(
        1,
        ge=1,
        description="steps behind an attacked update, each on batch_size images of its own, with"
        " train.lr",
    )
    weights: Literal["initial", "final"] = Field(
        "initial",
        description="weights at which the gradients are taken: before the first round, where they"
        " show most, or after the last",
    )
    attacks: Annotated[dict[Name, AnyInversion], BeforeValidator(with_kinds)] = Field(
        default_factory=_standard,
        min_length=1,
        description="the attacks by their names; left out = the list in docs/federated_attacks.md",
    )

    @property
    def behind(self) -> int:
        """Return the number of images behind each attacked gradient or update."""
        return self.batch_size * self.local_steps

    @model_validator(mode="after")
    def _attacks_fit_the_gradients(self) -> Self:
        if "worst_case" in self.attacks:
            raise ValueError("attacks.worst_case: the tables use this name; choose another")
        for name, attack in self.attacks.items():
            known = getattr(attack, "mask", None) == "known" and self.local_steps > 1
            if known or (attack.linked is not None and self.behind > 1):
                needed = "a single step, whose mask it knows" if known else "single images"
                raise ValueError(
                    f"attacks.{name}: it needs gradients of {needed}, found batch_size"
                    f" {self.batch_size} and local_steps {self.local_steps}; set them to 1, or list"
                    " the attacks without this one"
                )
        return self
