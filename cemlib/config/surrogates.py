"""Options of the conditional-entropy surrogates; the field `name` selects the surrogate."""

from typing import Annotated, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from cemlib.config.base import Section, named


class SurrogateConfig(Section):
    """Options of any surrogate: its weight in the loss, and how it follows the learning rate."""

    needs_noise: ClassVar[bool] = False
    """Whether it penalises a bound that is infinite without noise."""

    lambda_: float = Field(
        16.0, alias="lambda", ge=0, description="weight before scaling by the learning rate"
    )

    lr_scaling: bool = Field(
        True,
        description="lambda_eff = lambda * 0.001 / learning rate, and lambda itself at the last"
        " rates (below 4.1e-4); false = lambda at every rate",
    )


class Hinge(SurrogateConfig):
    """A surrogate that penalises variance above a ceiling."""

    var_threshold: float = Field(
        0.125, gt=0, description="ceiling of the hinge, as a fraction of the noise variance"
    )


class Clustering(Hinge):
    """K-means per class, hinge on the scalar variance of each cluster (the CEM baseline)."""

    name: Literal["clustering"] = "clustering"
    clusters: int = Field(5, ge=1, description="clusters per class")
    refit: int = Field(1, ge=1, description="epochs from one fit of the clusters to the next")
    gate: Literal["log", "linear"] = Field(
        "log", description="log: hinge on the log of the variance; linear: no log, no ceiling"
    )
    gamma: float = Field(0.01, gt=0, description="offset inside the logarithms")
    variance: Literal["scalar", "diagonal"] = Field(
        "scalar", description="one variance per cluster, or per cluster and dimension"
    )
    form: Literal["blended", "batch"] = Field(
        "blended",
        description="batch moments blended with stored ones, or squared norms of the batch alone",
    )
    reference_indexing: bool = Field(
        False, description="read weights and variances from the row that the public code reads"
    )

    @model_validator(mode="after")
    def _options_go_together(self) -> Self:
        for option in ("variance", "reference_indexing", "gamma"):  # which `batch` does not use
            needed = type(self).model_fields[option].default
            if self.form == "batch" and getattr(self, option) != needed:
                raise ValueError(
                    f"{option} is {getattr(self, option)!r}; form 'batch' allows only {needed!r}"
                )
        if self.gate == "linear" and self.gamma != type(self).model_fields["gamma"].default:
            raise ValueError(
                "gamma has no effect with gate 'linear', which has no logarithm; leave gamma out"
            )
        return self


class Gmm(SurrogateConfig):
    """Gaussian mixture per class by EM: the bound of Xia et al. on the mutual information."""

    needs_noise: ClassVar[bool] = True

    name: Literal["gmm"] = "gmm"
    clusters: int = Field(5, ge=1, description="components per class")
    refit: int = Field(1, ge=1, description="epochs from one fit of the mixtures to the next")
    covariance: Literal["diagonal", "full"] = Field(
        "diagonal", description="covariance of each component"
    )


class Attention(Hinge):
    """Options of the gated attention, alone or in a fusion."""

    moments: Literal["layernorm", "raw"] = Field(
        "layernorm", description="features whose moments are taken; raw is the released scale"
    )
    variance: Literal["diagonal", "trace"] = Field(
        "diagonal", description="one variance per dimension, or the squared norm"
    )
    gate: Literal["log", "linear"] = Field(
        "log", description="log: hinge on the log of the variance; linear: no log, no ceiling"
    )
    hidden: int | None = Field(None, ge=1, description="attention width; null = from the features")
    surrogate_grad: Literal["descend", "stop", "ascend"] = Field(
        "descend", description="how the attention trains: with, without or against the penalty"
    )
    scale: float = Field(0.1, gt=0, description="constant factor s of the gated penalty")


class Slots(Hinge):
    """Options of the slot attention, alone or in a fusion."""

    slots: int = Field(8, ge=1, description="slots per class")
    iterations: int = Field(3, ge=1, description="rounds of slot attention")
    heads: int = Field(4, ge=1, description="heads of the cross-attention")


class Fusion(Attention, Slots):
    """Options of both attentions."""


class Gated(Attention):
    """Gated attention pooling per class, hinge on the attention-weighted variance."""

    name: Literal["gated"] = "gated"


class Slot(Slots):
    """Slot attention with gated cross-attention, hinge on the slot-weighted variance."""

    name: Literal["slot"] = "slot"
    scale: float = Field(0.25, gt=0, description="constant factor s of the penalty")
    beta: float = Field(
        10.0, gt=0, description="inverse temperature of a sample's shares of the slots, at first"
    )
    sharpening: float = Field(2.5, gt=0, description="power p of the slots' masses as weights")
    snr_gate: bool = Field(True, description="false leaves out the gate on variance over mean")
    refinement: float = Field(
        0.1,
        description="initial value of a1 and a2, by which samples take from the slots; 0 = nothing",
    )
    margin: float = Field(
        0.0,
        description="initial value of m0, the margin above the ceiling at which the hinge begins,"
        " in nats",
    )
    snr_threshold: float = Field(
        1.0, description="initial value of t_snr, the ratio at which that gate is half open"
    )


class Parallel(Fusion):
    """Penalties of gated and slot side by side, mixed by learned weights."""

    name: Literal["parallel"] = "parallel"
    slot_scale: float = Field(0.25, gt=0, description="constant factor of the slot penalty")


class Shortcut(Fusion):
    """Gated attention, to whose variance that of the slots is added with a learned factor."""

    name: Literal["shortcut"] = "shortcut"
    residual: float = Field(
        0.1, description="initial value of a; the slots' variance enters with the factor tanh(a)"
    )
    nonnegative: bool = Field(False, description="tanh(a) counts as 0 where it is below 0")

    @model_validator(mode="after")
    def _slots_can_act(self) -> Self:
        if self.nonnegative and self.residual <= 0:
            raise ValueError(
                f"residual is {self.residual:g}; with `nonnegative` it must be above 0, otherwise"
                " the slots never act"
            )
        return self


class Gaussian(SurrogateConfig):
    """Options of the log-determinant bound, with and without a metric."""

    needs_noise: ClassVar[bool] = True

    momentum: float | None = Field(
        None,
        ge=0,
        lt=1,
        description="share that running moments keep from batch to batch; null = enough to"
        " average 4 samples of a class per dimension",
    )
    refresh: int = Field(50, ge=1, description="steps between two factorisations")
    shrinkage: float = Field(
        0.0, ge=0, lt=1, description="weight of a multiple of the identity in each covariance"
    )


class LogDet(Gaussian):
    """One Gaussian per class: the log-determinant bound, without clusters."""

    name: Literal["logdet"] = "logdet"


class LogDetGated(Gaussian, Attention):
    """The penalties of `logdet` and `gated` added, of strengths `lambda` and a multiple of it."""

    name: Literal["logdet_gated"] = "logdet_gated"
    gated_weight: float = Field(
        1.0, ge=0, description="weight of gated's part, as a multiple of `lambda`"
    )


class TaskAware(Gaussian):
    """The pull of `logdet`, with a metric that spares the directions which the server uses."""

    name: Literal["task_aware"] = "task_aware"
    kappa: float = Field(
        0.3, gt=0, description="sensitivity, relative to the mean one, at which the pull is halved"
    )
    samples: int = Field(
        512, ge=1, description="training images at which the server's sensitivity is taken"
    )


class ImageAware(Gaussian):
    """The pull of `logdet`, aimed at the directions that show the image to a linear attack."""

    name: Literal["image_aware"] = "image_aware"
    share: float = Field(
        0.67, ge=0, le=1, description="share of the pull along what shows the image; 0 is logdet"
    )
    samples: int = Field(
        2048, ge=2, description="training images at which the linear attack is fitted"
    )


OfMoments = LogDet | LogDetGated | TaskAware | ImageAware
AnySurrogate = Annotated[
    Clustering | Gmm | Gated | Slot | Parallel | Shortcut | OfMoments,
    Field(discriminator="name"),
    BeforeValidator(named),
]
