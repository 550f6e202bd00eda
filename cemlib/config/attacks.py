"""Options of the attacks; the field `kind` selects the attack."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from cemlib.config.base import Name, Precision, Section


class AttackConfig(Section):
    """Options of any attack; the properties have defaults for attacks without such an option."""

    closed_form: ClassVar[bool] = False

    @property
    def begins_with(self) -> str | None:
        """Return the name of the attack whose trained decoder this one starts from, if any."""
        return getattr(self, "start", None)

    @property
    def foreign_weights(self) -> str | None:
        """Return the file of weights from outside the study that the attack reads, if any."""
        return getattr(self, "pretrained", None)

    @property
    def told_class(self) -> bool:
        """Return whether the attacker knows the class of each image."""
        return bool(getattr(self, "knows_class", False))

    @property
    def releases(self) -> int:
        """Return how many releases of the same image the attacker sees."""
        return int(getattr(self, "queries", 1))


class Querying(AttackConfig):
    """Options of an attack on one or several releases of an image."""

    queries: int = Field(
        1, ge=1, description="releases of the same image that the attacker sees and averages"
    )


class Learned(Querying):
    """Options of an attack that trains a network."""

    budget: Literal["standard", "strong"] = Field(
        "standard",
        description="strong: three times the epochs, 1.5 times the width, and the best of three"
        " learning rates on the attacker's held-out images (gan: the critic's width, no trials)",
    )
    precision: Precision = Field(
        "float32",
        description="arithmetic of the training; auto: bfloat16 where the hardware supports it;"
        " the attack is scored in float32",
    )
    images: int | None = Field(
        None, ge=2, description="number of the attacker's images to train on; null = all"
    )


class Decoder(Learned):
    """A linear reconstruction in closed form and a residual network that corrects it, mixed."""

    kind: Literal["decoder"] = "decoder"
    epochs: int = Field(8, ge=1, description="passes over the attacker's images")
    batch_size: int = Field(64, ge=2, description="images per step")
    lr: float = Field(1e-3, gt=0, description="highest rate of Adam's one-cycle schedule")
    weight_decay: float = Field(1e-4, ge=0, description="L2 term in Adam's gradient")
    blocks: int = Field(4, ge=1, description="residual blocks after the first, before upsampling")
    width: int = Field(32, ge=1, description="channels of the residual blocks")
    flip: bool = Field(
        True, description="train on mirror images too, if the study's train.augment.flip is set"
    )
    knows_class: bool = Field(
        False, description="tell the attacker the true class of every image, besides its release"
    )


class PublishedDecoder(Learned):
    """Options of an attack that trains the published decoder."""

    epochs: int = Field(50, ge=1, description="passes over the attacker's images")
    batch_size: int = Field(256, ge=2, description="images per step")
    lr: float = Field(1e-3, gt=0, description="Adam's learning rate at the first epoch")
    final_lr: float = Field(1e-5, ge=0, description="learning rate the cosine ends at")
    weight_decay: float = Field(1e-4, ge=0, description="L2 term in Adam's gradient")
    blocks: int = Field(8, ge=1, description="residual blocks after the first, before upsampling")
    width: int = Field(64, ge=1, description="channels of the residual blocks")


class Residual(PublishedDecoder):
    """The published residual decoder, trained to invert the released features."""

    kind: Literal["residual"] = "residual"


class Perceptual(PublishedDecoder):
    """The published decoder, with a distance between features of a classifier in its loss."""

    kind: Literal["perceptual"] = "perceptual"
    feature_weight: float = Field(
        0.1, gt=0, description="weight of the feature-space distance relative to the MSE"
    )
    pretrained: str | None = Field(
        None,
        pattern=r"^[^{}]+$",  # braces are wildcards to Snakemake
        description="file with torchvision's VGG16 weights (.pth); null = features of the study's"
        " own undefended judge",
    )


class Gan(Learned):
    """A trained decoder, trained further against a Wasserstein critic with gradient penalty."""

    kind: Literal["gan"] = "gan"
    start: Name = Field("decoder", description="attack whose decoder the generator starts from")
    epochs: int = Field(150, ge=1, description="passes over the attacker's images")
    batch_size: int = Field(128, ge=2, description="images per step")
    lr: float = Field(5e-4, gt=0, description="Adam's learning rate of the generator")
    critic_lr: float = Field(5e-3, gt=0, description="Adam's learning rate of the critic")
    critic_steps: int = Field(10, ge=1, description="steps of the critic for each generator step")
    gradient_penalty: float = Field(10.0, ge=0, description="weight of the critic's penalty")
    mse_weight: float = Field(
        1500.0, ge=0, description="weight of the MSE relative to the critic's score"
    )
    critic_width: int = Field(64, ge=1, description="channels of the critic's first layer")


class Optimisation(Querying):
    """White-box optimisation of the image itself, through the client and the release channel."""

    kind: Literal["optimisation"] = "optimisation"
    start: Name | None = Field(
        None, description="attack whose decoder gives the first image; null = grey"
    )
    budget: Literal["standard", "strong"] = Field(
        "standard",
        description="strong takes three times as many steps, with the best of several learning"
        " rates and multiples of the priors' weights on the attacker's held-out images",
    )
    iterations: int = Field(500, ge=1, description="steps of Adam at most")
    lr: float = Field(0.02, gt=0, description="Adam's learning rate, in units of pixel values")
    tv_weight: float = Field(
        1e-2,
        ge=0,
        description="weight of the total variation relative to the feature distance, for release"
        " noise of 0.025 or less; it grows with the variance of the noise",
    )
    denoiser_weight: float = Field(
        0.0,
        ge=0,
        description="weight of a denoiser trained on the attacker's images, as a prior; 1 makes"
        " the minimum the most probable image, given the noise of the release; 0 = no prior",
    )
    denoiser_noise: float = Field(
        0.1,
        gt=0,
        description="standard deviation of the noise that the denoiser removes, in units of pixel"
        " values",
    )
    batch_size: int = Field(512, ge=1, description="images per batch; affects memory, not results")


class Linear(Querying):
    """Ridge regression from the released features to the pixels."""

    kind: Literal["linear"] = "linear"
    closed_form: ClassVar[bool] = True
    ridge: float = Field(
        1e-3, gt=0, description="penalty, relative to the mean variance of the features"
    )


class RandomFeatures(Querying):
    """Ridge regression on random features of the release, mixed with a trained decoder."""

    kind: Literal["random_features"] = "random_features"
    start: Name = Field("decoder", description="attack whose decoder the regression is mixed with")
    features: int = Field(2048, ge=1, description="number of random features")
    flip: bool = Field(
        True, description="fit to mirror images too, if the study's train.augment.flip is set"
    )


class MeanImage(AttackConfig):
    """The mean of the attacker's images, whatever the release: the baseline an attack has to beat.

    Keep its name in a study: figures and warnings find it by the name.
    """

    kind: Literal["mean_image"] = "mean_image"
    closed_form: ClassVar[bool] = True


AnyAttack = Annotated[
    Decoder | Residual | Perceptual | Gan | Optimisation | RandomFeatures | Linear | MeanImage,
    Field(discriminator="kind"),
]


def with_kinds(attacks: Any) -> Any:
    """Fill in each `kind` from the attack's name, so that `decoder: {}` is enough.

    In a file that neither extends another nor is extended, `decoder:` is enough too; elsewhere it
    removes the attack.
    """
    if not isinstance(attacks, dict):
        return attacks
    given = {name: {} if options is None else options for name, options in attacks.items()}
    return {n: {"kind": n, **o} if isinstance(o, dict) else o for n, o in given.items()}
