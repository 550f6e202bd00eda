"""Compute what clients share, stacked over independent problems, and distances of gradients.

A problem is one shared gradient: the mean over the B images of a batch, with B = 1 for the gradient
of a single image. Single problems are tiny, so that many are solved at once: every tensor has a
first axis of P problems, and nothing that is computed for one depends on another.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.func import functional_call, grad, vmap
from torch.nn import functional as F

from cemlib.federated.network import BIAS, WEIGHT, FederatedNet, weights_of

Gradients = dict[str, Tensor]
GradientFunction = Callable[[Tensor, Tensor], Gradients]

_TINY = 1e-37  # about the smallest squared norm that float32 holds


@dataclass(frozen=True)
class Shared:
    """Hold gradients as the server sees them, and what else an attacker may know.

    Attributes:
        gradients: By parameter name, each (P, *shape of the parameter).
        image_shape: (C, H, W).
        prior: (classes, C, H, W), the attacker's mean image of each class.
        batch: Images B behind each gradient.
        mask: (P, outputs, l) of zeros and ones: what the gradient of the last layer's weight was
            multiplied with. Only an attacker with `mask: known` may read it. None: all ones.
        ratio: (P,) share of the true image in the image that the gradient is of. Only an attacker
            with `unmix` may read it. None: all ones.
        index: (P,) numbers that decide the problems' random starts; None: 0 to P - 1.
    """

    gradients: Gradients
    image_shape: tuple[int, int, int]
    prior: Tensor
    batch: int = 1
    mask: Tensor | None = None
    ratio: Tensor | None = None
    index: Tensor | None = None

    def __len__(self) -> int:
        return len(self.gradients[BIAS])

    def part(self, rows: slice) -> "Shared":
        """Return the problems of these rows."""
        return replace(
            self,
            gradients={name: value[rows] for name, value in self.gradients.items()},
            mask=None if self.mask is None else self.mask[rows],
            ratio=None if self.ratio is None else self.ratio[rows],
            index=self.numbers()[rows],
        )

    def numbers(self) -> Tensor:
        """Return `index`, filled in."""
        return torch.arange(len(self)) if self.index is None else self.index

    def masks(self) -> Tensor:
        """Return `mask`, filled in."""
        weight = self.gradients[WEIGHT]
        return torch.ones_like(weight) if self.mask is None else self.mask

    def ratios(self) -> Tensor:
        """Return `ratio`, filled in."""
        return self.prior.new_ones(len(self)) if self.ratio is None else self.ratio


def gradient_function(net: FederatedNet) -> GradientFunction:
    """Make a differentiable function of a batch's images: the gradients of its mean loss.

    Returns:
        A function of images (P, B, C, H, W) and label distributions (P, B, classes) to gradients by
        parameter name, each (P, *shape). The network's weights are constants of it.
    """
    weights = weights_of(net)

    def loss(weights: Mapping[str, Tensor], images: Tensor, targets: Tensor) -> Tensor:
        logits: Tensor = functional_call(net, dict(weights), (images,))
        return -(targets * logits.log_softmax(1)).sum(1).mean()

    each = vmap(grad(loss), in_dims=(None, 0, 0))

    def gradients(images: Tensor, targets: Tensor) -> Gradients:
        found: Gradients = each(weights, images, targets)
        return found

    return gradients


def true_gradients(net: FederatedNet, images: Tensor, labels: Tensor) -> Gradients:
    """Return gradients of images (P, B, C, H, W) with labels (P, B), without history."""
    targets = one_hot(labels, net.classifier.out_features, images.dtype)
    with torch.no_grad():
        found = gradient_function(net)(images, targets)
    return {name: value.detach() for name, value in found.items()}


def one_hot(labels: Tensor, classes: int, dtype: torch.dtype) -> Tensor:
    """Return labels (...) as distributions (..., classes)."""
    return F.one_hot(labels, classes).to(dtype)


def squared_distance(ours: Gradients, theirs: Gradients) -> Tensor:
    """Return the sum (P,) of squared differences over all parameters."""
    parts = [(ours[name] - theirs[name]).square().flatten(1).sum(1) for name in theirs]
    return torch.stack(parts).sum(0)


def cosine_distance(ours: Gradients, theirs: Gradients) -> Tensor:
    """Return one minus the cosine of the angle between whole gradients, (P,) in [0, 2]."""
    lengths = _length(ours) * _length(theirs)
    return 1 - _inner(ours, theirs) / lengths


def kept(gradients: Gradients, entries: Tensor | None) -> Gradients:
    """Return gradients with the last layer's weight multiplied by `entries` (P, outputs, l)."""
    if entries is None:
        return gradients
    return {**gradients, WEIGHT: gradients[WEIGHT] * entries}


def absolute_variation(images: Tensor) -> Tensor:
    """Return the mean absolute difference (P,) of neighbours in images (P, B, C, H, W).

    The anisotropic total variation of Rudin, Osher and Fatemi (Physica D 60, 1992).
    """
    down, right = (images.diff(dim=side).abs().flatten(1).mean(1) for side in (-2, -1))
    return down + right


def _length(gradients: Gradients) -> Tensor:
    return _inner(gradients, gradients).clamp(min=_TINY).sqrt()


def _inner(a: Gradients, b: Gradients) -> Tensor:
    return torch.stack([(a[name] * b[name]).flatten(1).sum(1) for name in b]).sum(0)
