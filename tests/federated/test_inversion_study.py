"""Attacks on every defence; rows of scores, and how failures are reported."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from inversion_scenes import network, scene
from scipy.stats import t

from cemlib.config.federated import DpSgd, MaskConfig, Variant
from cemlib.config.federated_attacks import Cosine, Idlg, InversionStudy, Linked, PriorImage
from cemlib.federated.inversion.evaluate import Finding, run_attacks, search_settings
from cemlib.federated.inversion.scene import Repeats
from cemlib.federated.inversion.scoring import Row, matched, scored, summary, worst_cases
from cemlib.federated.inversion.search import Reconstruction
from cemlib.report.statistics import mean_interval

ATTACKS = {
    "idlg": Idlg(iterations=40),
    "adaptive": Idlg(iterations=40, mask="known", unmix=True),
    "cosine": Cosine(iterations=10),
    "mean_image": PriorImage(),
}
MASKED = Variant(mask=MaskConfig(beta=5))
VARIANTS = {  # with the share of the true image
    "none": (Variant(), 1.0),
    "pseudo_data": (Variant(), 0.7),
    "gradient_mask": (MASKED, 1.0),
    "both": (MASKED, 0.7),
    "dp_sgd": (Variant(dp_sgd=DpSgd(clip=1.0, noise_multiplier=0.3)), 1.0),
    "soteria": (Variant(mask=MaskConfig(order="soteria")), 1.0),
}


@pytest.fixture(scope="module")
def findings() -> dict[str, dict[str, Finding]]:
    net = network()
    return {
        name: run_attacks(net, scene(3, ratio), variant, ATTACKS, seed=0)
        for name, (variant, ratio) in VARIANTS.items()
    }


def means(found: dict[str, Finding]) -> dict[str, dict[str, Any]]:
    """The summary of each attack on one defence, and of the worst case."""
    rows = {name: each.rows for name, each in found.items()}
    rows["worst_case"] = worst_cases(rows)
    return {name: summary([each]) for name, each in rows.items()}


def test_what_each_defence_is_worth(findings: dict[str, dict[str, Finding]]) -> None:
    found = {name: means(each) for name, each in findings.items()}
    mse = {name: {a: row["mse_mean"] for a, row in each.items()} for name, each in found.items()}
    assert mse["none"]["idlg"] < 1e-4
    assert mse["gradient_mask"]["idlg"] > 1e-3 > mse["gradient_mask"]["adaptive"]
    assert mse["soteria"]["idlg"] > 1e-2 > mse["soteria"]["adaptive"]
    # What is seen is nearer to the class mean than the true image is, and the attacker knows.
    assert mse["pseudo_data"]["idlg"] > 2 * mse["both"]["adaptive"] > 1e-4
    assert found["pseudo_data"]["idlg"]["mse_trained_mean"] < 1e-4
    assert mse["dp_sgd"]["worst_case"] > 1e-2
    for each in mse.values():
        assert each["worst_case"] <= min(each[name] for name in ATTACKS)
    assert findings["both"]["idlg"].pictures.shape == (3, 1, 8, 8)
    assert findings["none"]["cosine"].curve.shape == (3, 11)


def test_attacks_that_differ_in_nothing_there_is_share_one_search() -> None:
    known, plain = Idlg(mask="known", unmix=True), Idlg()
    assert search_settings(known, Variant()) == search_settings(plain, Variant())
    assert search_settings(known, MASKED) == Idlg(mask="known")
    attacks = {"known": Idlg(iterations=3, mask="known"), "plain": Idlg(iterations=3)}
    for variant, same in ((Variant(), True), (MASKED, False)):
        found = run_attacks(network(), scene(2), variant, attacks, seed=0)
        assert torch.equal(found["known"].pictures, found["plain"].pictures) == same


def test_an_attack_that_links_is_scored_against_a_mixture_that_it_sees() -> None:
    where, mixtures = scene(2), torch.rand(2, 3, 1, 1, 8, 8)
    where = replace(where, repeats=Repeats(mixtures, 0.5, torch.ones(10)))
    attacks = {"linked": PriorImage(linked=Linked(images=3, rounds=1))}
    found = run_attacks(network(), where, Variant(), attacks, seed=0)["linked"]
    for row, picture, first in zip(found.rows, found.pictures, mixtures[:, 0, 0], strict=True):
        assert row["mse_trained"] == pytest.approx((picture - first).square().mean().item())


def test_batches_are_attacked_and_scored_image_by_image() -> None:
    attack = {"idlg": Idlg(iterations=100)}
    rows = run_attacks(network(), scene(4), Variant(), attack, seed=0, batch=2)["idlg"].rows
    assert [(row["image"], row["label_right"]) for row in rows] == [(i, True) for i in range(4)]
    assert min(row["mse"] for row in rows) < 1e-3


def test_the_configuration_takes_names_for_kinds() -> None:
    options: dict[str, Any] = {"idlg": None, "known": {"kind": "cosine", "mask": "known"}}
    study = InversionStudy.model_validate({"attacks": options})
    assert study.attacks == {"idlg": Idlg(), "known": Cosine(mask="known")}
    assert set(InversionStudy().attacks) > {"dlg", "idlg", "cosine", "combined", "mean_image"}


def answer(images: torch.Tensor, labels: torch.Tensor, loss: list[float]) -> Reconstruction:
    return Reconstruction(images, labels, torch.tensor(loss), torch.tensor(loss)[:, None])


def rows(*errors: float | None, right: bool = True) -> list[Row]:
    """Return the rows of an attack with these errors, None where it failed."""
    names = ("mse", "psnr", "ssim", "mse_trained", "psnr_trained", "ssim_trained")
    return [
        {"image": image, "label": 0, "reason": None, "label_right": right and mse is not None}
        | {"status": "failed" if mse is None else "ok", **dict.fromkeys(names, mse)}
        for image, mse in enumerate(errors)
    ]


def test_scores_are_against_the_true_image_and_the_trained_one() -> None:
    where = scene(2, ratio=0.7)
    found = matched(answer(where.trained[:, None], where.labels[:, None], [0.0, 0.0]), where.images)
    for image, scores in enumerate(scored(found, where)):
        expected = (where.images[image] - where.trained[image]).square().mean().item()
        assert scores["mse"] == pytest.approx(expected)
        assert scores["psnr"] == pytest.approx(-10 * math.log10(expected), rel=1e-5)
        assert scores["mse_trained"] == 0
        assert scores["ssim_trained"] == pytest.approx(1)
        assert (scores["status"], scores["label_right"]) == ("ok", True)


def test_answers_of_a_batch_are_put_in_the_order_of_its_images() -> None:
    where = scene(4)
    images, labels = where.images.view(2, 2, 1, 8, 8), where.labels.view(2, 2)
    turned = answer(images.flip(1), labels.flip(1), [0.0, 0.0])
    found = matched(turned, where.images)
    assert torch.equal(found.images, images)
    assert [row["label_right"] for row in scored(found, where)] == [True] * 4  # in any order
    turned = answer(images, torch.stack([labels[0, :1].repeat(2), labels[1]]), [0.0, 0.0])
    assert [row["label_right"] for row in scored(turned, where)] == [True, False, True, True]


def test_a_loss_or_image_that_is_not_a_number_is_a_failed_row() -> None:
    where = scene(3)
    images = where.images[:, None].clone()
    images[2, 0, 0, 3, 3] = torch.nan
    found = matched(answer(images, where.labels[:, None], [0.0, math.inf, 0.0]), where.images)
    ended = scored(found, where)
    assert [each["status"] for each in ended] == ["ok", "failed", "failed"]
    assert all(ended[1][key] is None for key in ("mse", "psnr", "ssim", "loss", "label_right"))
    assert ended[1]["reason"] == "the attack's loss or its image is not finite"


def test_the_worst_case_is_the_lowest_mse_of_each_image() -> None:
    found = worst_cases({"a": rows(0.2, 0.1, right=False), "b": rows(0.1, 0.3)})
    assert [(each["image"], each["mse"]) for each in found] == [(0, 0.1), (1, 0.1)]
    assert [each["label_right"] for each in found] == [True, True]


def test_the_worst_case_is_not_known_where_an_attack_failed() -> None:
    (found,) = worst_cases({"a": rows(0.2), "b": rows(None)})
    assert (found["status"], found["mse"]) == ("failed", None)
    assert found["reason"] == "no result of b"


def test_means_of_one_seed_have_the_interval_over_images() -> None:
    values = [0.1, 0.2, 0.4]
    found, expected = summary([rows(*values)]), mean_interval(values)
    assert found["mse_mean"] == pytest.approx(expected.mean)
    assert found["mse_ci_low"] == pytest.approx(expected.low)
    assert found["mse_ci_high"] == pytest.approx(expected.high)
    assert (found["n_seeds"], found["n_images"], found["failed"]) == (1, 3, 0)


def test_means_of_several_seeds_have_the_interval_over_seeds_and_images() -> None:
    """The variances of both means add up, with the degrees of freedom of Satterthwaite."""
    seeds, images = np.array([0.0, 0.1, 0.2]), 0.15 * np.arange(10)
    found = summary([rows(*(seed + images), right=seed > 0) for seed in seeds])
    first, second = seeds.var(ddof=1) / 3, images.var() / 10
    freedom = (first + second) ** 2 / (first**2 / 2 + second**2 / 9)
    ends = t.interval(0.95, freedom, 0.1 + 0.675, math.sqrt(first + second))
    assert found["mse_mean"] == pytest.approx(0.1 + 0.675)
    assert (found["mse_ci_low"], found["mse_ci_high"]) == pytest.approx(ends)
    assert (found["n_seeds"], found["n_images"]) == (3, 10)
    assert found["label_right"] == pytest.approx(2 / 3)


def test_a_mean_without_the_failed_images_is_not_shown() -> None:
    found = summary([rows(0.1, None)])
    assert (found["failed"], found["mse_mean"], found["label_right"]) == (1, None, None)


def test_an_infinite_mean_is_not_shown() -> None:
    first, second = rows(0.1, 0.1)
    found = summary([[first | {"psnr": math.inf}, second]])
    assert found["psnr_mean"] is None
    assert found["mse_mean"] == pytest.approx(0.1)
