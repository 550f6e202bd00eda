"""Every attack on every defence, and its configuration."""

from typing import Any

import pytest
import torch
from inversion_scenes import network, scene

from cemlib.config.federated import MaskConfig, Variant
from cemlib.config.federated_attacks import Cosine, DpSgd, Idlg, InversionStudy, PriorImage
from cemlib.federated.inversion.evaluate import Finding, run_attacks, search_of
from cemlib.federated.inversion.scoring import summary, worst_cases

ATTACKS = {
    "idlg": Idlg(iterations=60),
    "adaptive": Idlg(iterations=60, mask="known", unmix=True),
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
    assert search_of(known, Variant()) == search_of(plain, Variant())
    assert search_of(known, MASKED) == Idlg(mask="known")
    attacks = {"known": Idlg(iterations=3, mask="known"), "plain": Idlg(iterations=3)}
    for variant, same in ((Variant(), True), (MASKED, False)):
        found = run_attacks(network(), scene(2), variant, attacks, seed=0)
        assert torch.equal(found["known"].pictures, found["plain"].pictures) == same


def test_batches_are_attacked_and_scored_image_by_image() -> None:
    attack = {"idlg": Idlg(iterations=150)}
    rows = run_attacks(network(), scene(4), Variant(), attack, seed=0, batch=2)["idlg"].rows
    assert [(row["image"], row["label_right"]) for row in rows] == [(i, True) for i in range(4)]
    assert min(row["mse"] for row in rows) < 1e-3


def test_the_configuration_takes_names_for_kinds() -> None:
    options: dict[str, Any] = {"idlg": None, "known": {"kind": "cosine", "mask": "known"}}
    study = InversionStudy.model_validate({"attacks": options})
    assert study.attacks == {"idlg": Idlg(), "known": Cosine(mask="known")}
    assert set(InversionStudy().attacks) > {"dlg", "idlg", "cosine", "features", "mean_image"}
