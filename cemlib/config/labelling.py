"""Configure a labelling study (`system: pctc`), and say what each of its jobs depends on."""

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from cemlib.config.base import Section, distinct
from cemlib.config.common import AnyStudy

MINIMUM_BITS, MAXIMUM_BITS = 256, 3072
SECURE_BITS = 2048  # NIST SP 800-57: shorter moduli are for tests alone
KeyBits = Annotated[int, Field(ge=MINIMUM_BITS, le=MAXIMUM_BITS, multiple_of=2)]  # of two primes
Positive = Annotated[int, Field(ge=1)]
Epsilon = Annotated[float, Field(gt=0)]


class NetworkConfig(Section):
    """Choose the network of some participants."""

    kind: Literal["mlp", "cnn", "vgg11", "vgg16", "resnet18"] = Field(
        description="mlp = two hidden layers; cnn = two convolutions, the second twice as wide;"
        " the others are torchvision's, with batch normalisation and a single linear layer, for RGB"
        " images of 32x32 pixels"
    )
    width: Positive | None = Field(
        None, description="mlp: units of each hidden layer; cnn: channels of the first convolution"
    )

    @model_validator(mode="after")
    def _width_of_small_networks(self) -> Self:
        if (self.width is None) == self.small:
            raise ValueError("width is missing" if self.small else f"{self.kind} takes no width")
        return self

    @property
    def small(self) -> bool:
        """Return whether networks of this kind are trained many at once."""
        return self.kind in ("mlp", "cnn")


class LocalTrainConfig(Section):
    """Set the training of the participants, the same before and after the queries."""

    optimiser: Literal["adam", "sgd"] = Field("adam", description="sgd has a momentum of 0.9")
    steps: int = Field(200, ge=10, description="steps of the optimiser")
    batch_size: int = Field(32, ge=1, description="images per step, drawn with replacement")
    lr: float = Field(3e-3, gt=0, description="learning rate, linearly falling to a tenth")
    weight_decay: float = Field(
        1e-3, ge=0, description="factor of the regulariser, half the sum of squared weights"
    )


class PrivacyConfig(Section):
    """Set how much one released row of counts may reveal about a vote."""

    epsilon: float = Field(1.2, gt=0, description="epsilon of one query, by the classical formula")
    delta: float = Field(
        1e-5,
        gt=0,
        lt=1,
        description="delta of one query, of all queries in the exact epsilon, and of the"
        " composition's slack",
    )
    sensitivity: float = Field(
        1.0,
        gt=0,
        description="L2 distance between neighbouring counts for which the noise is calibrated: 1 ="
        " a participant joins or leaves, 1.41421356 = a participant's vote changes",
    )
    sweep: Annotated[tuple[Epsilon | None, ...], AfterValidator(distinct)] = Field(
        (0.3, 0.6, 2.4, None),
        description="further epsilons of one query, for accuracy against epsilon; null = no noise",
    )


class EncryptionConfig(Section):
    """Choose the keys of the votes."""

    key_bits: KeyBits = Field(2048, description="length of the Paillier modulus")
    insecure_for_testing: bool = Field(
        False, description="allow keys below 2048 bits, which protect nothing"
    )
    mask_bits: int = Field(
        40,
        ge=8,
        le=44,
        description="b: a mask is uniform in [0, 2^b) votes, and fails to hide the vote behind it"
        " with a probability of 2^-b",
    )


class CostConfig(Section):
    """Choose the rounds in which encryption and decryption are timed."""

    key_bits: Annotated[tuple[KeyBits, ...], AfterValidator(distinct)] = Field(
        (256, 512), min_length=1, description="key lengths, in the order of the table"
    )
    images: int = Field(
        18, ge=1, description="images of a round in the rows `images`; other rows have one"
    )


class LabellingStudy(AnyStudy):
    """Label images collaboratively, with several numbers of labelled images per participant."""

    system: Literal["pctc"]
    repeats: int = Field(10, ge=1, description="independent draws of sets, weights and noise")
    participants: int = Field(15, ge=2, description="parties who vote, including the requester")
    images: Annotated[tuple[Positive, ...], AfterValidator(distinct)] = Field(
        min_length=1, description="labelled images per participant; each number is an experiment"
    )
    queries: int = Field(200, ge=1, description="unlabelled images that are voted on")
    networks: tuple[NetworkConfig, ...] = Field(
        min_length=1, description="networks, assigned to the participants in turn"
    )
    certainty: Literal["entropy", "posterior"] = Field(
        "entropy",
        description="weight of an answer under IEL: by the entropy of its counts, as published, or"
        " the probability, given the noise, that it has the most votes",
    )
    train: LocalTrainConfig = Field(LocalTrainConfig(), description="training of the participants")
    privacy: PrivacyConfig = Field(PrivacyConfig(), description="the noise of the answers")
    encryption: EncryptionConfig = Field(EncryptionConfig(), description="the keys of the votes")
    cost: CostConfig = Field(CostConfig(), description="timing of the cryptography")

    @model_validator(mode="after")
    def _sweep_has_other_values(self) -> Self:
        if self.privacy.epsilon in self.privacy.sweep:
            raise ValueError(
                "privacy.sweep: contains privacy.epsilon, which is always used; remove it"
            )
        return self

    @model_validator(mode="after")
    def _images_suit_the_networks(self) -> Self:
        large = [network.kind for network in self.networks if not network.small]
        if large and (self.data.image_size, self.data.channels) != (32, 3):
            raise ValueError(f"networks: {large[0]} needs data.image_size: 32 and data.channels: 3")
        if "resnet18" in large and self.train.batch_size == 1:  # its last maps are 1x1
            raise ValueError("train.batch_size: resnet18 needs at least 2 images per step")
        return self

    @model_validator(mode="after")
    def _delta_in_total_promises(self) -> Self:
        delta = self.privacy.delta
        if (self.queries + 1) * delta >= 1:
            raise ValueError(
                f"privacy.delta: {delta} over {self.queries} queries and the slack of their"
                f" composition is 1 or more, which promises nothing; take less than"
                f" {1 / (self.queries + 1):.4g}"
            )
        return self

    @model_validator(mode="after")
    def _keys_are_long_enough(self) -> Self:
        bits = self.encryption.key_bits
        if bits < SECURE_BITS and not self.encryption.insecure_for_testing:
            raise ValueError(
                f"encryption.key_bits: {bits} is below {SECURE_BITS}; take a longer key, or"
                " set encryption.insecure_for_testing: true"
            )
        return self

    def epsilons(self) -> tuple[float | None, ...]:
        """Return the epsilons of one query: the study's own, then those of the sweep."""
        return (self.privacy.epsilon, *self.privacy.sweep)

    def repeat_slice(self) -> dict[str, Any]:
        """Return what one repeat depends on, whatever its number."""
        plain = self.plain("experiment", "results", "repeats", "cost")
        return plain | {"data": self.data_slice()}

    def cost_slice(self) -> dict[str, Any]:
        """Return what the timing depends on."""
        shared = {"participants": self.participants, "mask_bits": self.encryption.mask_bits}
        return self.cost.plain() | shared

    def report_slice(self) -> dict[str, Any]:
        """Return what tables and figures depend on besides the results."""
        return self.repeat_slice() | {"repeats": self.repeats}
