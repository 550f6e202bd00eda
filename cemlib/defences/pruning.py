"""Structured pruning of the client, and what the client costs before and after it.

Fewer channels carry less of the image to the cut, and cost the client less. That is the pruning of
PATROL (Ding, Zhang, Pan and Yuan, "PATROL: Privacy-oriented pruning for collaborative inference
against model inversion attacks", WACV 2024), whose other two parts, Lipschitz regularisation and
training against a reconstruction, are not here. Which filters go is the rule of Li et al., "Pruning
filters for efficient ConvNets", ICLR 2017, applied to every layer by itself: the filters with the
smallest

    s_j = sum over input channels and kernel positions of |W_j|

with their entries of the batch normalisation and the kernels that read them in the next layer.

It assumes that a small filter matters little. Batch normalisation undoes the scale of a filter, so
that is a habit of training with weight decay and not a law: the pruned network needs further
training. The bottleneck keeps its channels, so pruning alone leaves the release as wide as before.
"""

import copy
import math

import torch
from torch import Tensor, nn

from cemlib.models.layers import ConvStack, Normalise
from cemlib.models.split import SplitModel


def prune(model: SplitModel, ratio: float) -> tuple[int, ...]:
    """Remove the smallest filters of the client's convolutions, except the bottleneck's, in place.

    The layers' parameters are new, smaller ones of the same device, type, memory format and
    `requires_grad`, without gradients: an optimiser of the old ones must be built again.

    Args:
        model: A split model whose client is a stack of convolutions.
        ratio: Share of each layer's output channels to remove, in [0, 1), rounded down to whole
            channels; at least one stays.

    Returns:
        The channels that each convolution keeps, as `client_widths` of `cemlib.models.build`.

    Raises:
        ValueError: if the ratio is out of range, or the client is no stack of convolutions.
    """
    if not 0 <= ratio < 1:
        raise ValueError(f"ratio is {ratio}; it must be at least 0 and below 1")
    stack, bottleneck = _client(model.encoder)
    blocks = stack.blocks()
    inputs = torch.arange(blocks[0][0].in_channels)
    for convolution, norm in blocks:
        kept = kept_filters(convolution.weight, ratio)
        _narrow_convolution(convolution, kept, inputs)
        _narrow_norm(norm, kept)
        inputs = kept
    _narrow_convolution(bottleneck, torch.arange(bottleneck.out_channels), inputs)
    return tuple(convolution.out_channels for convolution, _ in blocks)


def kept_filters(weight: Tensor, ratio: float) -> Tensor:
    """Return the indices, ascending and on the CPU, of the filters with the largest L1 norms.

    Of filters with equal norms those with the lower indices stay.

    Args:
        weight: Filters (out, in, height, width).
        ratio: Share to remove, in [0, 1], rounded down; at least one filter stays.
    """
    # Without the rounding .29 of 100 would be 28, for .29 is stored a little below itself.
    removed = math.floor(round(ratio * len(weight), 9))
    # On the CPU in float64, every device chooses the same filters.
    norms = weight.detach().cpu().double().abs().flatten(1).sum(1)
    order = norms.argsort(descending=True, stable=True)
    return order[: max(len(weight) - removed, 1)].sort().values


def client_cost(model: SplitModel, image_shape: tuple[int, int, int]) -> dict[str, float]:
    """Count what the client holds and computes; the model is left as it is.

    Args:
        model: The split model.
        image_shape: (C, H, W) of the images.

    Returns:
        `parameters` of the encoder, and `flops` of one image, twice the multiply-adds of its
        convolutions and matrix products. What is done per element (bias, normalisation,
        activation) is not counted.
    """
    from torch.utils.flop_counter import FlopCounterMode  # .4 s, and few processes count

    encoder = copy.deepcopy(model.encoder).eval()
    weights = list(encoder.parameters())
    image = torch.zeros(1, *image_shape, device=weights[0].device, dtype=weights[0].dtype)
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        encoder(image)
    return {
        "parameters": float(sum(weight.numel() for weight in weights)),
        "flops": float(counter.get_total_flops()),
    }


def _client(encoder: nn.Module) -> tuple[ConvStack, nn.Conv2d]:
    """Return convolutions and bottleneck of a client that `models.stacks.split_stack` built."""
    match list(encoder.children()):
        case [Normalise(), ConvStack() as stack, nn.Conv2d() as bottleneck, *_]:
            return stack, bottleneck
    kinds = sorted({type(module).__name__ for module in encoder.modules()})
    raise ValueError(
        "pruning: the client must be a stack of convolutions without shortcuts, such as vgg11's;"
        f" found one of {', '.join(kinds)}"
    )


def _narrow_convolution(convolution: nn.Conv2d, outputs: Tensor, inputs: Tensor) -> None:
    weight = _chosen(convolution.weight, inputs, dim=1)
    convolution.weight = _parameter(_chosen(weight, outputs), convolution.weight)
    if convolution.bias is not None:
        convolution.bias = _parameter(_chosen(convolution.bias, outputs), convolution.bias)
    convolution.in_channels, convolution.out_channels = len(inputs), len(outputs)


def _narrow_norm(norm: nn.BatchNorm2d, kept: Tensor) -> None:
    for name, old in list(norm.named_parameters()):
        setattr(norm, name, _parameter(_chosen(old, kept), old))
    for name in ("running_mean", "running_var"):
        setattr(norm, name, _chosen(getattr(norm, name), kept))
    norm.num_features = len(kept)


def _chosen(values: Tensor, kept: Tensor, dim: int = 0) -> Tensor:
    return values.detach().index_select(dim, kept.to(values.device))


def _parameter(values: Tensor, old: Tensor) -> nn.Parameter:
    last = old.ndim == 4 and old.is_contiguous(memory_format=torch.channels_last)
    form = torch.channels_last if last else torch.contiguous_format
    return nn.Parameter(values.contiguous(memory_format=form), requires_grad=old.requires_grad)
