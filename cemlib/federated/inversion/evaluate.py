"""Carry out every attack on what the server sees of a scene, and score the answers."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from torch import Tensor

from cemlib.config.federated import Variant
from cemlib.config.federated_attacks import AnyInversion
from cemlib.federated.inversion import ATTACKS
from cemlib.federated.inversion.scene import Scene, shared_gradients
from cemlib.federated.inversion.scoring import Row, matched, scored
from cemlib.federated.inversion.search import Reconstruction
from cemlib.federated.network import FederatedNet
from cemlib.numerics.seeds import generator
from cemlib.records.progress import progress


class Finding(NamedTuple):
    """Hold what one attack found.

    Attributes:
        rows: One for each image; see `cemlib.federated.inversion.scoring.scored`.
        pictures: (N, C, H, W), in the order of the scene's images; NaN where the attack failed.
        curve: (P, T), the attack's own loss during the search, by gradient.
    """

    rows: list[Row]
    pictures: Tensor
    curve: Tensor


def run_attacks(
    net: FederatedNet,
    scene: Scene,
    variant: Variant,
    attacks: Mapping[str, AnyInversion],
    *,
    seed: int,
    batch: int = 1,
) -> dict[str, Finding]:
    """Attack what the server sees of each image under a defence; return findings by attack.

    Attacks that differ only in how they adapt to a defence that is absent share one search.

    Args:
        net: the network with the weights that the server sent out.
        scene: the images.
        variant: the defence.
        attacks: settings by name.
        seed: of all random draws.
        batch: images behind each gradient.
    """
    shared = shared_gradients(net, scene, variant, batch, seed)
    searched: dict[AnyInversion, Reconstruction] = {}
    found: dict[str, Finding] = {}
    with progress("inversion", len(attacks)) as report:
        for done, (name, settings) in enumerate(attacks.items(), 1):
            search = search_of(settings, variant)
            if search not in searched:
                draws = generator(seed, f"inversion_{search.kind}")
                searched[search] = ATTACKS[search.kind](net, shared, search, draws)
            answer = searched[search]
            if settings.unmix:
                answer = unmixed(answer, scene.ratio.view(-1, batch).mean(1), scene.prior)
            report(done, {"loss": float(answer.loss.nanmean())})
            ordered = matched(answer, scene.images)
            pictures = ordered.images.flatten(0, 1)
            found[name] = Finding(scored(ordered, scene), pictures, answer.curve)
    return found


def search_of(settings: AnyInversion, variant: Variant) -> AnyInversion:
    """Return an attack's settings without the adaptations that its search does not need.

    Without a mask there is nothing to know of it, and a mixture is solved after the search.
    """
    changes: dict[str, Any] = {"unmix": False}
    if variant.mask is None and getattr(settings, "mask", None) == "known":
        changes["mask"] = "ignored"
    return settings.model_copy(update=changes)


def unmixed(answer: Reconstruction, ratio: Tensor, prior: Tensor) -> Reconstruction:
    """Return the best linear guess of the true image x from the mixture x' = r x + (1 - r) G.

    Where pseudo images have the mean m and the covariances of the class's true ones, it is
    m + r / (r^2 + (1 - r)^2) (x' - m). Dividing by r alone would double what G adds, at r = 1/2.
    `ratio` (P,) holds r of each gradient, `prior` (classes, C, H, W) m of each class.
    """
    ratio, mean = ratio[:, None, None, None, None], prior[answer.labels]
    factor = ratio / (ratio.square() + (1 - ratio).square())
    return answer._replace(images=(mean + factor * (answer.images - mean)).clamp(0, 1))
