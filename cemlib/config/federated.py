"""Configure federated learning with two perturbations (`system: federated`)."""

from typing import Any, Literal, Self

from pydantic import Field, model_validator

from cemlib.config.base import Name, Section
from cemlib.config.common import AnyStudy, Seeds
from cemlib.config.federated_attacks import InversionStudy


class FederatedModel(Section):
    """Choose the classifier that the clients train together."""

    name: Literal["lenet", "resnet18"] = Field(
        "lenet", description="key of cemlib.federated.network.NETWORKS"
    )
    activation: Literal["softplus", "relu"] = Field(
        "softplus",
        description="after every convolution; gradient inversion takes second derivatives, and"
        " those of relu are zero",
    )


class ClientsConfig(Section):
    """Set how many clients take part, and which images each has."""

    number: int = Field(
        10, ge=1, le=1000, description="clients, each with its own part of the training images"
    )
    split: Literal["iid", "dirichlet"] = Field(
        "iid",
        description="distribute the images at random, or each class in shares that are drawn from a"
        " Dirichlet distribution",
    )
    concentration: float = Field(
        0.5,
        gt=0,
        description="concentration of the Dirichlet distribution; the lower, the more the clients"
        " differ",
    )
    participation: float = Field(
        0.5, gt=0, le=1, description="share of the clients that the server asks in a round"
    )
    dropout: float = Field(
        0.0, ge=0, lt=1, description="probability that a client that was asked does not answer"
    )


class FederatedTrain(Section):
    """Set the rounds of federated averaging."""

    rounds: int = Field(40, ge=1, description="rounds of training and averaging")
    local_steps: int = Field(8, ge=1, description="gradient steps of a client in a round")
    batch_size: int = Field(16, ge=1, description="images of a local step")
    lr: float = Field(0.5, gt=0, description="learning rate of the local steps")


class GanConfig(Section):
    """Set the conditional GAN of every client."""

    epochs: int = Field(60, ge=1, description="epochs, each with the two phases below")
    discriminator_steps: int = Field(4, ge=1, description="steps of the first phase of an epoch")
    generator_steps: int = Field(4, ge=1, description="steps of the second phase")
    batch_size: int = Field(16, ge=2, description="images of a step")
    lr: float = Field(3e-3, gt=0, description="Adam's learning rate of both networks")
    latent: int = Field(16, ge=1, description="length of the noise e")
    width: int = Field(24, ge=2, description="channels of both networks")
    mu: float = Field(10.0, ge=0, description="weight of (Var(G(e|y)) - v_e)^2")
    v_e: float = Field(0.06, ge=0, le=0.25, description="target variance of generated images")
    variance: Literal["batch", "image"] = Field(
        "batch",
        description="variance of every pixel over the images of a batch, or of every image over its"
        " pixels; their mean is drawn towards v_e",
    )


class Mixing(Section):
    """Mix pseudo images into the data: x' = lam x + (1 - lam) G(e|y)."""

    lam: float | None = Field(None, ge=0, le=1, description="share of the real image; or give beta")
    beta: tuple[float, float] | None = Field(
        None, description="a, b of the Beta distribution from which lam is drawn for every image"
    )
    pseudo: Literal["fresh", "fixed"] = Field(
        "fresh",
        description="noise and lam of an image are drawn anew in every step, or once for all",
    )

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.lam is None) == (self.beta is None):
            raise ValueError("give either lam or beta")
        if self.beta is not None and min(self.beta) <= 0:
            raise ValueError(f"beta: both must be above 0, found {list(self.beta)}")
        return self


class MaskConfig(Section):
    """Mask the gradient of the fully connected layer."""

    alpha: float = Field(0.5, ge=0, le=1, description="share of the features that is masked")
    beta: int | None = Field(
        None, ge=0, description="number of outputs whose gradients are masked; null = all"
    )
    order: Literal["ours", "soteria"] = Field(
        "ours", description="scores of a batch: mean ratio, or absolute sum of signed ratios"
    )
    images: int | None = Field(
        None, ge=1, description="number of images of a step that decide the scores; null = all"
    )


class DpSgd(Section):
    """Train by DP-SGD: the gradient of every image is clipped, then noise is added."""

    clip: float = Field(1.0, gt=0, description="largest L2 norm of the gradient of one image")
    noise_multiplier: float = Field(
        0.03, ge=0, description="standard deviation of the noise, in units of `clip`"
    )
    delta: float = Field(1e-5, gt=0, lt=1, description="delta of the reported epsilon")


class Variant(Section):
    """Perturb a client's data, its gradients, or both; by default neither."""

    mixing: Mixing | None = Field(None, description="pseudo images in the data")
    mask: MaskConfig | None = Field(None, description="a mask in the gradients")
    dp_sgd: DpSgd | None = Field(None, description="clipped and noised gradients")

    @model_validator(mode="after")
    def _not_both(self) -> Self:
        if self.mask is not None and self.dp_sgd is not None:
            raise ValueError("mask and dp_sgd cannot be combined; make two variants")
        return self


class Federated(AnyStudy):
    """Set up clients, variants of their training, and the attacks on their gradients."""

    system: Literal["federated"]
    seeds: Seeds = Field((0, 1, 2), description="one run per variant and seed")
    model: FederatedModel = Field(FederatedModel(), description="the classifier")
    clients: ClientsConfig = Field(ClientsConfig(), description="who takes part")
    train: FederatedTrain = Field(FederatedTrain(), description="rounds of training")
    extractor: Literal["auto", "local"] = Field(
        "auto",
        description="F before the discriminator; auto: torchvision's VGG11 if torch's hub cache"
        " has its weights (nothing is downloaded), otherwise as local: trained by each client",
    )
    gan: GanConfig = Field(GanConfig(), description="the GAN of every client")
    variants: dict[Name, Variant] = Field(
        min_length=1, description="sections by names of your choice, in the order of the tables"
    )
    inversion: InversionStudy = Field(
        InversionStudy(), description="attacks on the gradients that clients send"
    )
    reference: Name = Field("none", description="variant with which the others are compared")

    @model_validator(mode="after")
    def _reference_exists(self) -> Self:
        if self.reference not in self.variants:
            raise ValueError(f"reference: {self.reference!r} is not among {list(self.variants)}")
        return self

    @model_validator(mode="after")
    def _attacked_images_make_batches(self) -> Self:
        images, size = self.inversion.images, self.inversion.behind
        if images % size:
            raise ValueError(
                f"inversion.images: {images} is not a multiple of {size}"
                " (inversion.batch_size times inversion.local_steps)"
            )
        return self

    @model_validator(mode="after")
    def _images_fit_the_generator(self) -> Self:
        if self.data.image_size % 4 and self.mixes():
            raise ValueError(
                f"data.image_size: {self.data.image_size} is not a multiple of 4, which the"
                " generator of pseudo images needs"
            )
        return self

    def mixes(self) -> bool:
        """Return whether a variant trains on pseudo images."""
        return any(variant.mixing is not None for variant in self.variants.values())

    def pseudo_slice(self) -> dict[str, Any]:
        """Return the settings that the clients' GANs depend on, except the seed."""
        return {
            "data": self.data_slice(),
            "clients": self.clients.plain("participation", "dropout"),
            "batch_size": self.train.batch_size,
            "extractor": self.extractor,
            "gan": self.gan.plain(),
            "threads": self.threads,
        }

    def train_slice(self, variant: str) -> dict[str, Any]:
        """Return the settings that the training of one variant depends on, except the seed."""
        settings = self.variants[variant]
        found = {
            "data": self.data_slice(),
            "model": self.model.plain(),
            "clients": self.clients.plain(),
            "train": self.train.plain(),
            "variant": settings.plain(),
            "threads": self.threads,
        }
        return found | ({"pseudo": self.pseudo_slice()} if settings.mixing is not None else {})

    def attack_slice(self, variant: str, attack: str) -> dict[str, Any]:
        """Return the settings that an attack on one variant depends on, except the seed.

        Attacks that link mixtures share the random draws, whose number is that of the attack that
        links most; so `linked` holds the largest numbers of any attack.
        """
        attacks = self.inversion.attacks
        found = self.train_slice(variant) | {"inversion": self.inversion.plain("attacks")}
        found["attack"] = attacks[attack].plain()
        if attacks[attack].linked and self.variants[variant].mixing is not None:
            every = [each.linked for each in attacks.values() if each.linked]
            found["linked"] = {
                "images": max(each.images for each in every),
                "rounds": max(each.rounds for each in every),
            }
        return found

    def report_slice(self) -> dict[str, Any]:
        """Return the settings that tables and figures depend on besides the results."""
        variants = {name: variant.plain() for name, variant in self.variants.items()}
        attacks = list(self.inversion.attacks)
        named = {"variants": variants, "attacks": attacks, "reference": self.reference}
        return named | {"seeds": list(self.seeds), "system": self.system}
