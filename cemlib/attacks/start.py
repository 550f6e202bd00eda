"""The decoder that an attack trains, new or as another attack left it."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from cemlib.attacks.budget import budgeted
from cemlib.models.decoder import CorrectedDecoder, Decoder


def untrained(
    options: Mapping[str, Any], feature_shape: Sequence[int], image_shape: tuple[int, int, int]
) -> Decoder | CorrectedDecoder:
    """Return a new decoder of the attack's `kind`, with `blocks` and `width`.

    Its weights come from torch's global random state.

    Where the features' sides do not double to the images', it makes the next larger ones and leaves
    off what is too much.

    Raises:
        ValueError: the features are larger than the images.
    """
    ratios = [big / small for big, small in zip(image_shape[1:], feature_shape[1:], strict=True)]
    if min(ratios) < 1:
        raise ValueError(
            f"decoder: features of {tuple(feature_shape[1:])} are larger than images of"
            f" {image_shape[1:]}; cut where they are not"
        )
    size = options["blocks"], options["width"], math.ceil(math.log2(max(ratios)))
    if options["kind"] == "decoder":
        return CorrectedDecoder(tuple(feature_shape), image_shape, *size)
    return Decoder(feature_shape[0], image_shape, *size)


def load_decoder(
    state: Mapping[str, Tensor],
    options: Mapping[str, Any],
    feature_shape: Sequence[int],
    image_shape: tuple[int, int, int],
) -> nn.Module:
    """Return the trained decoder that an attack left, in eval mode and frozen, on the CPU.

    Args:
        state: Tensors of the attack's `Outcome`.
        options: Options of that attack, its budget among them.
        feature_shape: (c, h, w) of the features.
        image_shape: (C, H, W) of the images.

    Raises:
        RuntimeError: the tensors are not those of such a decoder.
    """
    model = untrained(budgeted(options), feature_shape, image_shape)
    model.load_state_dict(state)
    return model.to(memory_format=torch.channels_last).eval().requires_grad_(False)
