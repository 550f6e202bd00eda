"""Carry out all attacks on what the server sees of a scene, and score the answers."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from cemlib.config.federated import Variant
from cemlib.config.federated_attacks import AnyInversion
from cemlib.federated.inversion import ATTACKS
from cemlib.federated.inversion.gradients import Shared
from cemlib.federated.inversion.mixtures import linked_scene, solved, unmixed
from cemlib.federated.inversion.scene import Scene, shared_gradients
from cemlib.federated.inversion.scoring import Row, matched, scored
from cemlib.federated.inversion.search import Reconstruction
from cemlib.federated.network import FederatedNet
from cemlib.numerics.seeds import derive, generator
from cemlib.records.progress import progress


class Finding(NamedTuple):
    """The results of one attack."""

    rows: list[Row]  # one for each image; see `cemlib.federated.inversion.scoring.scored`
    pictures: Tensor  # (N, C, H, W), in the order of the scene's images; NaN where it failed
    curve: Tensor  # (P, T), the attack's own loss during the search for each gradient


def run_attacks(
    net: FederatedNet,
    scene: Scene,
    variant: Variant,
    attacks: Mapping[str, AnyInversion],
    *,
    seed: int,
    batch: int = 1,
    steps: int = 1,
    lr: float = 0.0,
) -> dict[str, Finding]:
    """Attack what the server sees of each image under a defence; return the findings by attack.

    Attacks that differ only in what they know of an absent defence share one search. Each gradient
    or update is of `batch` images; an update has `steps` local steps of rate `lr`, each on
    batch / steps of these images.
    """
    shared = shared_gradients(net, scene, variant, batch, seed, steps, lr)
    searched: dict[AnyInversion, Reconstruction] = {}
    found: dict[str, Finding] = {}
    report = progress("inversion", len(attacks), unit="attack")
    for done, (name, settings) in enumerate(attacks.items(), 1):
        plain, linked, repeats = search_settings(settings, variant), settings.linked, scene.repeats
        if linked is not None and repeats is not None:
            many = linked_scene(scene, repeats, linked)
            all_seen = shared_gradients(net, many, variant, 1, seed)
            answer = solved(attack(net, all_seen, plain, seed), scene, repeats, linked)
            seen = replace(scene, trained=repeats.mixtures[:, 0, 0])
        else:
            seen = scene
            if plain not in searched:
                searched[plain] = attack(net, shared, plain, seed)
            answer = searched[plain]
            if settings.unmix:
                answer = unmixed(answer, scene.ratio.view(-1, batch).mean(1), scene.prior)
        report(done, {"loss": float(answer.loss.nanmean())})
        ordered = matched(answer, scene.images)
        pictures = ordered.images.flatten(0, 1)
        found[name] = Finding(scored(ordered, seen), pictures, answer.curve)
    return found


def attack(net: FederatedNet, shared: Shared, settings: AnyInversion, seed: int) -> Reconstruction:
    """Return an attack's answers; each has a seed of its own, and does not depend on the others."""
    draws = generator(seed, f"inversion_{settings.kind}")
    base = int(torch.randint(2**62, (), generator=draws))
    seeds = [derive(base, "start 0", problem) for problem in range(len(shared))]
    labels, found = ATTACKS[settings.kind](net, shared, settings, seeds)
    return Reconstruction(found.points.clamp(0, 1), labels, found.values, found.curve)


def search_settings(settings: AnyInversion, variant: Variant) -> AnyInversion:
    """Return the settings that decide an attack's search; without a mask, `known` is `ignored`."""
    changes: dict[str, Any] = {"unmix": False, "linked": None}
    if variant.mask is None and getattr(settings, "mask", None) == "known":
        changes["mask"] = "ignored"
    return settings.model_copy(update=changes)
