"""Options of the attacks; the field `kind` says which one a section is."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from cemlib.config.base import Section


class Decoder(Section):
    """A residual decoder trained to invert the released features."""

    kind: Literal["decoder"] = "decoder"
    closed_form: ClassVar[bool] = False
    epochs: int = Field(50, ge=1, description="passes over the attacker's images")
    batch_size: int = Field(256, ge=2, description="images per step")
    lr: float = Field(1e-3, gt=0, description="Adam's learning rate at the first epoch")
    final_lr: float = Field(1e-5, ge=0, description="learning rate the cosine ends at")
    weight_decay: float = Field(1e-4, ge=0, description="L2 term in Adam's gradient")
    blocks: int = Field(8, ge=1, description="residual blocks between the first and upsampling")
    width: int = Field(64, ge=1, description="channels of the residual blocks")
    precision: Literal["float32", "bfloat16"] = Field(
        "float32", description="arithmetic of the decoder's training; it is scored in float32"
    )


class Linear(Section):
    """Ridge regression from the released features to the pixels."""

    kind: Literal["linear"] = "linear"
    closed_form: ClassVar[bool] = True
    ridge: float = Field(
        1e-3, gt=0, description="penalty, relative to the mean variance of the features"
    )


class MeanImage(Section):
    """The attacker's mean image, whatever was released: the ceiling of the error."""

    kind: Literal["mean_image"] = "mean_image"
    closed_form: ClassVar[bool] = True


AnyAttack = Annotated[Decoder | Linear | MeanImage, Field(discriminator="kind")]


def with_kind(name: str, options: Any) -> Any:
    """Fill in `kind` from the attack's name, so that `decoder: {}` needs no more."""
    return {"kind": name, **options} if isinstance(options, dict) else options
