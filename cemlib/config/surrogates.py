"""Options of the conditional-entropy surrogates; the field `name` says which one a section is."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from cemlib.config.base import Section


class SurrogateConfig(Section):
    """What every surrogate has: its weight in the loss."""

    lambda_: float = Field(
        16.0, alias="lambda", ge=0, description="weight before scaling by the learning rate"
    )
    var_threshold: float = Field(
        0.125, gt=0, description="ceiling of the hinge, as a fraction of the noise variance"
    )

    def options(self) -> dict[str, Any]:
        """Keyword arguments for `cemlib.surrogates.build`."""
        return self.model_dump(exclude={"name", "lambda_"})


class Clustering(SurrogateConfig):
    """K-means per class, hinge on the scalar variance of each cluster (the CEM baseline)."""

    name: Literal["clustering"] = "clustering"
    clusters: int = Field(5, ge=1, description="clusters per class")
    gate: Literal["log", "linear"] = Field("log", description="form of the hinge")
    gamma: float = Field(0.01, gt=0, description="offset inside the logarithms")


class Gated(SurrogateConfig):
    """Gated attention pooling per class, hinge on the attention-weighted variance."""

    name: Literal["gated"] = "gated"
    moments: Literal["layernorm", "raw"] = Field(
        "layernorm", description="features whose moments are taken; raw is the released scale"
    )
    variance: Literal["diagonal", "trace"] = Field(
        "diagonal", description="one variance per dimension, or the squared norm"
    )
    gate: Literal["log", "linear"] = Field("log", description="form of the hinge")
    scale: float = Field(0.1, gt=0, description="constant factor s of the penalty")
    hidden: int | None = Field(None, ge=1, description="attention width; null = from the features")
    surrogate_grad: Literal["descend", "stop", "ascend"] = Field(
        "descend", description="how the attention trains: with, without or against the penalty"
    )


class Slot(SurrogateConfig):
    """Slot attention with gated cross-attention, hinge on the slot-weighted variance."""

    name: Literal["slot"] = "slot"
    slots: int = Field(8, ge=1, description="slots per class")
    iterations: int = Field(3, ge=1, description="rounds of slot attention")
    heads: int = Field(4, ge=1, description="heads of the cross-attention")
    scale: float = Field(0.25, gt=0, description="constant factor s of the penalty")


def _named(value: Any) -> Any:
    return {"name": value} if isinstance(value, str) else value


AnySurrogate = Annotated[
    Annotated[Clustering | Gated | Slot, Field(discriminator="name")], BeforeValidator(_named)
]
