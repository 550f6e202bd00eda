"""Infer labels, pruned entries and features from the last layer's gradient, without any search.

With cross-entropy, the gradient of output c's bias is the mean over the batch of p_c - [y = c]: for
one image it is negative for the true class and for no other. The gradient of the weight is the
outer product of the bias's and the layer's input F, so that F_i = dW_ci / db_c for every output c
whose dW_ci was not pruned (in a batch, a mixture). The least-squares estimate of F_i is

    F_i = sum_c h_ci dW_ci db_c / sum_c h_ci db_c^2,        h: 1 where the entry is trusted

Sources: Zhao, Mopuri and Bilen, "iDLG: improved deep leakage from gradients", 2020 (the label of
one image); Wainakh et al., "User-level label leakage from gradients in federated learning", PoPETs
2022 (the labels of a batch: one after another, that of the output with the lowest gradient, to
which 1/B is then added); Phong et al., "Privacy-preserving deep learning via additively homomorphic
encryption", IEEE TIFS 13(5), 2018 (the ratio); Geiping et al., NeurIPS 2020, section 4.1 (the input
of any fully connected layer).
"""

import torch
from torch import Tensor

from cemlib.federated.inversion.gradients import Gradients, Shared
from cemlib.federated.network import BIAS, WEIGHT


def inferred_labels(shared: Shared) -> Tensor:
    """Return the labels (P, B) of each problem's images, in no particular order within a problem.

    For a single image they are exact if only the last layer's weight gradient is perturbed. For a
    batch they are a guess, since the mean reveals only the sum of the images' contributions.

    Example:
        Probabilities (.2, .5, .3) and class 1.

        >>> gradients = {"classifier.bias": torch.tensor([[0.2, -0.5, 0.3]])}
        >>> inferred_labels(Shared(gradients, torch.zeros(3, 1, 2, 2)))
        tensor([[1]])
    """
    left = shared.gradients[BIAS].clone()
    found = []
    for _ in range(shared.batch):
        lowest = left.argmin(1)
        left[torch.arange(len(left)), lowest] += 1 / shared.batch
        found.append(lowest)
    return torch.stack(found, dim=1)


def trusted_entries(shared: Shared, mask: str) -> Tensor | None:
    """Return (P, outputs, l) with 1 for entries that an attacker relies on, else 0; None for all.

    Leaving out the `layer` is the attack of Balunovic et al. (ICLR 2022) on Soteria.
    """
    if mask == "layer":
        return torch.zeros_like(shared.gradients[WEIGHT])
    if mask == "estimated":
        return estimated_mask(shared.gradients)
    return shared.mask if mask == "known" else None


def estimated_mask(gradients: Gradients) -> Tensor:
    """Return the mask (P, outputs, l), read off the exact zeros that it leaves in gradients.

    A zero counts as pruned where another output has a value for that feature. A feature that is
    zero for all outputs counts as truly zero if pruning visibly differs between outputs, and
    otherwise as pruned. Outputs whose bias has no gradient (the network is certain of them) are no
    evidence.

    Example:
        Output 0 is pruned at feature 0, output 1 is not; feature 2 is zero by itself.

        >>> weight = torch.tensor([[[0.0, 2.0, 0.0], [3.0, 4.0, 0.0]]])
        >>> bias = torch.tensor([[0.5, -0.5]])
        >>> estimated_mask({"classifier.weight": weight, "classifier.bias": bias})
        tensor([[[0., 1., 1.],
                 [1., 1., 1.]]])
    """
    weight, silent = gradients[WEIGHT], gradients[BIAS][:, :, None] == 0
    zero = (weight == 0) & ~silent
    everywhere = (zero | silent).all(1, keepdim=True)
    pruned_for_some = zero & ~everywhere
    uneven = pruned_for_some.flatten(1).any(1)[:, None, None]
    pruned = pruned_for_some | (everywhere & ~uneven)
    return (~pruned).to(weight.dtype)


def recovered_features(gradients: Gradients, entries: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return the last layer's input (P, l) from gradients of single images, and where it is known.

    Gradients are not used where `entries` (P, outputs, l) is 0; without any, a feature is unknown.

    Example:
        >>> gradients = {
        ...     "classifier.bias": torch.tensor([[0.5, -0.5]]),
        ...     "classifier.weight": torch.tensor([[[1.0, 0.0], [-1.0, -2.0]]]),
        ... }
        >>> recovered_features(gradients, torch.tensor([[[1.0, 0.0], [1.0, 1.0]]]))
        (tensor([[2., 4.]]), tensor([[True, True]]))
    """
    weight, bias = gradients[WEIGHT], gradients[BIAS][:, :, None]
    trusted = torch.ones_like(weight) if entries is None else entries
    power = (trusted * bias.square()).sum(1)
    known = power > 0
    features = (trusted * weight * bias).sum(1) / torch.where(known, power, 1)
    return features, known
