"""Structured pruning of the client, and the client's cost before and after it.

Fewer channels carry less of the image to the cut, and cost the client less. This is the pruning of
PATROL (Ding, Zhang, Pan and Yuan, "PATROL: Privacy-oriented pruning for collaborative inference
against model inversion attacks", WACV 2024), without its Lipschitz regularisation and its training
against a reconstruction. By the rule of Li et al., "Pruning filters for efficient ConvNets", ICLR
2017, every layer by itself loses the filters with the smallest

    s_j = sum over input channels and kernel positions of |W_j|

with their entries in the batch normalisation and their kernels in the next layer.

It assumes that a small filter matters little. Batch normalisation undoes the scale of a filter, so
this is only a tendency of training with weight decay: the pruned network needs further training.
"""

import copy
import math

import torch
from torch import Tensor, nn

from cemlib.models.layers import ConvStack, Normalise
from cemlib.models.split import SplitModel


def prune(model: SplitModel, ratio: float) -> tuple[int, ...]:
    """Remove the smallest filters of the client's convolutions, except the bottleneck's, in place.

    The share `ratio` of each layer's output channels, in [0, 1), is rounded down to whole channels;
    at least one stays. Return the remaining channels of each layer, the `client_widths` of
    `cemlib.models.build`. The layers get new parameters, for which the optimiser must be created
    again.

    Raises:
        ValueError: if the ratio is out of range, or the client is not a stack of convolutions.
    """
    if not 0 <= ratio < 1:
        raise ValueError(f"ratio is {ratio}; it must be at least 0 and below 1")
    stack, bottleneck = client_stack(model.encoder)
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
    """Return, in ascending order, the indices of filters (out, in, h, w) with the largest L1 norms.

    Of filters with equal norms those with lower indices stay, and at least one does.
    """
    # Without rounding, floor(.29 * 100) would be 28.
    removed = math.floor(round(ratio * len(weight), 9))
    # In float64 on the CPU, the result does not depend on the device.
    norms = weight.detach().cpu().double().abs().flatten(1).sum(1)
    order = norms.argsort(descending=True, stable=True)
    return order[: max(len(weight) - removed, 1)].sort().values


def client_cost(model: SplitModel, image_shape: tuple[int, int, int]) -> dict[str, float]:
    """Return the client's `parameters` and its `flops` for one image (C, H, W).

    The operations are twice the multiply-adds of convolutions and matrix products, and no others.
    """
    from torch.utils.flop_counter import FlopCounterMode  # takes .4 s to import

    encoder = copy.deepcopy(model.encoder).eval()
    weights = list(encoder.parameters())
    image = torch.zeros(1, *image_shape, device=weights[0].device, dtype=weights[0].dtype)
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        encoder(image)
    return {
        "parameters": float(sum(weight.numel() for weight in weights)),
        "flops": float(counter.get_total_flops()),
    }


def client_stack(encoder: nn.Module) -> tuple[ConvStack, nn.Conv2d]:
    """Return the convolutions and the bottleneck of a client of `models.stacks.split_stack`."""
    match list(encoder.children()):
        case [Normalise(), ConvStack() as stack, nn.Conv2d() as bottleneck, *_]:
            return stack, bottleneck
    kinds = sorted({type(module).__name__ for module in encoder.modules()})
    raise ValueError(
        "pruning: the client must be a stack of convolutions without shortcuts, such as vgg11's;"
        f" found {', '.join(kinds)}"
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
