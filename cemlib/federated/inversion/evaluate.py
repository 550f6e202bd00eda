"""Attack every defence by every attack: scores of single images, and the worst case."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from cemlib.config.federated_attacks import AnyInversion
from cemlib.federated.inversion import ATTACKS
from cemlib.federated.inversion.gradients import Shared, stacked
from cemlib.federated.inversion.reconstruction import Reconstruction, split
from cemlib.federated.inversion.scoring import Row, matched, scored, worst_cases
from cemlib.federated.inversion.variants import Scene, Variant, shared_gradients
from cemlib.federated.network import FederatedNet
from cemlib.numerics.seeds import generator
from cemlib.records.progress import progress

Answers = dict[tuple[str, str], Reconstruction]
Searches = dict[tuple[str, AnyInversion], Reconstruction]


@dataclass(frozen=True)
class Findings:
    """Hold what the attacks found.

    Attributes:
        rows: One for each defence, attack and image; see `run_attacks`.
        pictures: (N, C, H, W) by defence and attack, in the order of the scene's images; NaN where
            an attack failed.
        curves: (P, T) by defence and attack: the attack's own loss along its course.
    """

    rows: list[Row]
    pictures: dict[tuple[str, str], Tensor]
    curves: dict[tuple[str, str], Tensor]


def run_attacks(
    net: FederatedNet,
    scene: Scene,
    variants: Mapping[str, Variant],
    attacks: Mapping[str, AnyInversion],
    *,
    seed: int,
    batch: int = 1,
) -> Findings:
    """Attack what the server sees of each image, under each defence.

    Rows have the keys `defence`, `attack`, `image`, `label`, `status` (`ok` or `failed`), `reason`,
    `label_right`, `loss` (the attack's own), `mse`, `psnr`, `ssim` against the true image, and the
    same with `_trained` against the image that the gradient is of: the mixture, under mixing. A
    failed row has no scores. The attack `worst_case` is, image by image, the one with the lowest
    MSE, named by `strongest`; it fails where one attack did.

    Args:
        net: the network with the weights that the server sent out.
        scene: the images.
        variants: defences by name.
        attacks: settings by name.
        seed: of all random draws.
        batch: images behind each gradient.
    """
    shares = {
        name: shared_gradients(net, scene, variant, batch, seed)
        for name, variant in variants.items()
    }
    answers = _answers(net, variants, shares, attacks, seed)
    pictures: dict[tuple[str, str], Tensor] = {}
    rows: list[Row] = []
    for (defence, attack), answer in answers.items():
        found = matched(answer, scene.images)
        trained = scene.trained_on(variants[defence])
        named = {"defence": defence, "attack": attack}
        rows += [named | row for row in scored(found, scene.images, trained, scene.labels)]
        pictures[defence, attack] = found.images
    curves = {key: answer.curve for key, answer in answers.items()}
    return Findings(rows + worst_cases(rows), pictures, curves)


def _answers(
    net: FederatedNet,
    variants: Mapping[str, Variant],
    shares: Mapping[str, Shared],
    attacks: Mapping[str, AnyInversion],
    seed: int,
) -> Answers:
    found: Answers = {}
    searched: Searches = {}
    with progress("inversion", len(attacks)) as report:
        for done, (name, settings) in enumerate(attacks.items(), 1):
            searches = {d: search_of(settings, variant) for d, variant in variants.items()}
            _search(net, shares, searches, searched, seed)
            for defence, search in searches.items():
                answer = searched[defence, search]
                if settings.unmix:
                    answer = unmixed(answer, shares[defence])
                found[defence, name] = answer
            losses = [found[defence, name].loss for defence in shares]
            report(done, {"loss": float(torch.cat(losses).nanmean())})
    return {(defence, attack): found[defence, attack] for defence in shares for attack in attacks}


def search_of(settings: AnyInversion, variant: Variant) -> AnyInversion:
    """Return an attack's settings without what adapts them to a defence that is not there.

    Attacks that differ in that alone have one search: who knows a mask of ones knows nothing, and
    solving a mixture comes after the search.
    """
    changes: dict[str, Any] = {"unmix": False}
    if variant.masking is None and getattr(settings, "mask", None) == "known":
        changes["mask"] = "ignored"
    return settings.model_copy(update=changes)


def _search(
    net: FederatedNet,
    shares: Mapping[str, Shared],
    searches: Mapping[str, AnyInversion],
    searched: Searches,
    seed: int,
) -> None:
    """Add what is not yet in `searched`: several defences in one run cost little more than one."""
    for settings in dict.fromkeys(searches.values()):
        missing = [
            defence
            for defence, search in searches.items()
            if search == settings and (defence, settings) not in searched
        ]
        if missing:
            draws = generator(seed, f"inversion_{settings.kind}")
            together = stacked([shares[defence] for defence in missing])
            answer = ATTACKS[settings.kind](net, together, settings, draws)
            parts = split(answer, [len(shares[defence]) for defence in missing])
            searched |= {(d, settings): part for d, part in zip(missing, parts, strict=True)}


def unmixed(answer: Reconstruction, shared: Shared) -> Reconstruction:
    """Return the best linear guess of the true image x from the mixture x' = r x + (1 - r) G.

    Where pseudo images have the mean m and the covariances of the class's true ones, it is
    m + r / (r^2 + (1 - r)^2) (x' - m). Dividing by r alone would double what G adds, at r = 1/2.
    """
    ratio = shared.ratios()[:, None, None, None, None]
    mean = shared.prior[answer.labels]
    factor = ratio / (ratio.square() + (1 - ratio).square())
    return replace(answer, images=(mean + factor * (answer.images - mean)).clamp(0, 1))
