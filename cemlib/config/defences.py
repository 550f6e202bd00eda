"""Options of one defended classifier: its surrogate, release channel, penalty and pruning."""

from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, JsonValue, model_validator

from cemlib.config.base import Section, named
from cemlib.config.surrogates import AnySurrogate


class NoiseChannel(Section):
    """The features with Gaussian noise of `noise_std`, and nothing else."""

    name: Literal["noise"] = "noise"


class DropoutChannel(Section):
    """Every feature is set to zero at random in each release; the others are not rescaled."""

    name: Literal["dropout"] = "dropout"
    rate: float = Field(0.2, ge=0, lt=1, description="probability that a feature is set to zero")


class TopKChannel(Section):
    """Only the features of largest magnitude of each image; the others are set to zero."""

    name: Literal["topk"] = "topk"
    keep: float = Field(0.2, gt=0, le=1, description="share of the features that are released")


class LocalDPChannel(Section):
    """Local differential privacy: features clipped to a norm, then noise to match."""

    name: Literal["local_dp"] = "local_dp"
    mechanism: Literal["laplace", "gaussian"] = Field(
        "laplace", description="noise, for the L1 or the L2 norm of the features"
    )
    epsilon: float = Field(5000.0, gt=0, description="privacy budget of one release")
    delta: float = Field(
        1e-5, gt=0, lt=1, description="with `gaussian`: probability that epsilon does not hold"
    )
    clip: float = Field(
        300.0,
        gt=0,
        description="largest norm of the features; the L1 norm of 512 sigmoids is about 260",
    )


class NoPeek(Section):
    """Distance correlation between images and features."""

    name: Literal["nopeek"] = "nopeek"
    scale: float = Field(0.1, gt=0, description="weight of the distance correlation in the loss")


class BiDO(Section):
    """Bilateral dependency optimisation, with the Hilbert-Schmidt independence criterion."""

    name: Literal["bido"] = "bido"
    scale: float = Field(
        0.1, gt=0, description="weight of the dependence of images and features in the loss"
    )
    label_ratio: float = Field(
        10.0,
        ge=0,
        description="weight by which dependence on labels is rewarded, relative to `scale`",
    )


class Fisher(Section):
    """Fisher information that releases have about the images."""

    name: Literal["fisher"] = "fisher"
    scale: float = Field(1.0, gt=0, description="weight of the Fisher information in the loss")


class Arl(Section):
    """Adversarial representation learning, against a decoder that is trained with the encoder."""

    name: Literal["arl"] = "arl"
    scale: float = Field(0.3, gt=0, description="weight of the penalty in the loss")
    threshold: float = Field(
        0.5, ge=-1, le=1, description="SSIM of the reconstructions below which nothing is penalised"
    )
    blocks: int = Field(4, ge=1, description="residual blocks of the defensive decoder")
    width: int = Field(64, ge=1, description="their channels")
    lr: float = Field(1e-3, gt=0, description="Adam's learning rate of the defensive decoder")


class PruningConfig(Section):
    """Structured pruning of the client's convolutions, once, during training."""

    epoch: int = Field(ge=1, description="epoch after which the client is pruned")
    ratio: float = Field(
        0.5,
        gt=0,
        lt=1,
        description="share of the output channels to remove from every layer but the bottleneck",
    )


AnyChannel = Annotated[
    NoiseChannel | DropoutChannel | TopKChannel | LocalDPChannel,
    Field(discriminator="name"),
    BeforeValidator(named),
]
AnyPenalty = Annotated[
    NoPeek | BiDO | Fisher | Arl, Field(discriminator="name"), BeforeValidator(named)
]


class DefenceConfig(Section):
    """One defended classifier; all fields can be combined."""

    surrogate: AnySurrogate | None = Field(
        None, description="a surrogate's name, or a section with its options; null = none"
    )
    noise_std: float = Field(
        0.025, ge=0, description="standard deviation of the Gaussian noise added at release"
    )
    channel: AnyChannel = Field(
        NoiseChannel(), description="release channel, before that noise is added"
    )
    penalty: AnyPenalty | None = Field(
        None, description="a training penalty's name, or a section with its options; null = none"
    )
    pruning: PruningConfig | None = Field(None, description="pruning of the client; null = none")
    sparse_coding: bool = Field(False, description="sparse-coding layer before the sigmoid")
    model: dict[str, JsonValue] = Field(
        {}, description="options of the study's `model` that differ for this defence"
    )
    train: dict[str, JsonValue] = Field(
        {}, description="options of the study's `train` that differ for this defence"
    )

    @model_validator(mode="after")
    def _a_bound_has_noise(self) -> Self:
        silent = self.noise_std == 0 and self.channel.name != "local_dp"
        if silent and self.surrogate is not None and self.surrogate.needs_noise:
            raise ValueError(
                f"noise_std is 0, but the surrogate {self.surrogate.name} penalises a bound that is"
                " infinite without noise; set it above 0"
            )
        return self
