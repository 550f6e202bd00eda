"""Guess the true image from an attack's answer on a mixture x' = r x + (1 - r) G(e|y).

The attacker knows r, and the mean m and variance A of the class's images. If pseudo images were
distributed like true ones, the best linear guess of x from a single x' would be

    m + r / (r^2 + (1 - r)^2) (x' - m)                                  `unmixed`

But a client's generator has a mean of its own. An attacker who knows which gradients are of one
client and class solves for it: the mean of those mixtures is r m + (1 - r) E[G|y], and their
variance is V = r^2 A + (1 - r)^2 Var[G|y]. Averaging the mixtures of one image over the rounds
first removes fresh noise from x' and V:

    m + r A / V (mean x' of the image - mean x' of all)                 `solved`
"""

from dataclasses import replace

from torch import Tensor

from cemlib.config.federated_attacks import Linked
from cemlib.federated.inversion.scene import Repeats, Scene
from cemlib.federated.inversion.search import Reconstruction


def unmixed(answer: Reconstruction, ratio: Tensor, prior: Tensor) -> Reconstruction:
    """Return the best linear guess of each image from its mixture alone; see the module.

    `ratio` (P,) holds the r of each gradient, `prior` (classes, C, H, W) the m of each class.
    """
    ratio, mean = ratio[:, None, None, None, None], prior[answer.labels]
    factor = ratio / (ratio.square() + (1 - ratio).square())
    return answer._replace(images=(mean + factor * (answer.images - mean)).clamp(0, 1))


def linked_scene(scene: Scene, repeats: Repeats, linked: Linked) -> Scene:
    """Return the scene of all linked mixtures: N images, each in a group of M, in R rounds."""
    mixtures = repeats.mixtures[:, : linked.images, : linked.rounds]
    labels = scene.labels[:, None, None].expand(mixtures.shape[:3])
    return replace(scene, trained=mixtures.flatten(0, 2), labels=labels.flatten())


def solved(
    answer: Reconstruction, scene: Scene, repeats: Repeats, linked: Linked
) -> Reconstruction:
    """Return the guess of each image (N, 1, C, H, W) from the answers on `linked_scene`."""
    groups = (len(scene.images), min(linked.images, repeats.mixtures.shape[1]), -1)
    labels = answer.labels.view(groups)[:, 0, :1]
    means = answer.images.view(*groups, *scene.images.shape[1:]).mean(2)
    found = means.var(1).flatten(1).mean(1).clamp(min=1e-12)  # 0 if all answers are equal
    most = 1 / max(repeats.share, 1e-9)  # without a share the factor is 0
    factor = (repeats.share * repeats.spread[labels[:, 0]] / found).clamp(max=most)
    apart = factor[:, None, None, None] * (means[:, 0] - means.mean(1))
    images = (scene.prior[labels[:, 0]] + apart).clamp(0, 1)[:, None]
    loss = answer.loss.view(groups).mean((1, 2))
    curve = answer.curve.view(*groups, answer.curve.shape[1]).mean((1, 2))
    return Reconstruction(images, labels, loss, curve)
