"""Options of the data: the source of the images, their splits and their augmentation."""

from typing import Literal

from pydantic import Field

from cemlib.config.base import Section


class DataConfig(Section):
    """The images and their splits."""

    source: Literal["digits", "folder", "cifar10", "cifar100", "mnist", "fashion_mnist", "svhn"] = (
        Field("digits", description="key of cemlib.data.SOURCES")
    )
    root: str | None = Field(
        None,
        min_length=1,
        description="folder of the images (or of the download); null = the environment variable "
        "CEMLIB_DATA, and ./data for a download if that is not set either",
    )
    image_size: int = Field(
        32, ge=8, le=256, description="side of the square images in pixels after resizing"
    )
    channels: Literal[1, 3] | None = Field(
        None, description="1 = grey, 3 = RGB, null = as the source has them"
    )
    val_fraction: float = Field(
        0.1, gt=0, lt=1, description="share of the training images that is held out for validation"
    )
    test_fraction: float = Field(
        0.25, gt=0, lt=1, description="share held out as test if the source has no test split"
    )
    classes: int | None = Field(
        None, ge=2, description="only this many classes, the first of the source; null = all"
    )
    train_limit: int | None = Field(
        None, ge=2, description="at most this many images for train and val together, stratified"
    )
    test_limit: int | None = Field(
        None, ge=2, description="at most this many test images, stratified"
    )
    split_seed: int = Field(0, ge=0, description="seed of the splits, the same for every run")
    min_per_class: int = Field(
        5, ge=1, description="fewer training images in a class than this are refused"
    )


class AugmentConfig(Section):
    """Random changes of the training images; the published protocol is 4, true, 15."""

    crop_padding: int = Field(
        0, ge=0, le=128, description="zeros on every side before a random crop to the original size"
    )
    flip: bool = Field(False, description="mirror left and right with probability one half")
    rotation: float = Field(
        0.0, ge=0, le=180, description="largest angle of a random rotation, in degrees"
    )
