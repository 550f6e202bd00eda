"""Every attack on every defence in one call, its configuration, and the trial of the docs."""

from typing import Any

import pytest
import torch
from inversion_scenes import network, scene
from pydantic import ValidationError

from cemlib.config.federated_attacks import Cosine, DpSgd, Idlg, InversionStudy, PriorImage
from cemlib.federated.client import Masking
from cemlib.federated.inversion import trial
from cemlib.federated.inversion.evaluate import Findings, run_attacks, search_of
from cemlib.federated.inversion.scoring import Row
from cemlib.federated.inversion.summary import summary
from cemlib.federated.inversion.variants import standard_variants

ATTACKS = {
    "idlg": Idlg(iterations=60),
    "adaptive": Idlg(iterations=60, mask="estimated", unmix=True),
    "cosine": Cosine(iterations=10),
    "mean_image": PriorImage(),
}
VARIANTS = standard_variants(Masking(0.5, 0.5), DpSgd(clip=1.0, noise_multiplier=0.3))


@pytest.fixture(scope="module")
def findings() -> Findings:
    return run_attacks(network(), scene(3), VARIANTS, ATTACKS, seed=0)


def table(rows: list[Row]) -> dict[tuple[str, str], Row]:
    return {(row["defence"], row["attack"]): row for row in summary([rows])}


def test_there_is_a_row_for_each_defence_attack_and_image(findings: Findings) -> None:
    keys = {(row["defence"], row["attack"], row["image"]) for row in findings.rows}
    assert len(keys) == len(findings.rows) == 6 * (4 + 1) * 3
    assert {row["status"] for row in findings.rows} == {"ok"}
    assert findings.pictures["both", "idlg"].shape == (3, 1, 8, 8)
    assert findings.curves["none", "cosine"].shape == (3, 11)


def test_what_each_defence_is_worth(findings: Findings) -> None:
    found = table(findings.rows)
    mse = {key: row["mse_mean"] for key, row in found.items()}
    assert mse["none", "idlg"] < 1e-4
    assert mse["gradient_mask", "idlg"] > 1e-3 > mse["gradient_mask", "adaptive"]
    assert mse["soteria", "idlg"] > 1e-2 > mse["soteria", "adaptive"]
    # What is seen is nearer to the class mean than the true image is, and the attacker knows.
    assert mse["pseudo_data", "idlg"] > 2 * mse["both", "adaptive"] > 1e-4
    assert found["pseudo_data", "idlg"]["mse_trained_mean"] < 1e-4
    assert mse["dp_sgd", "worst_case"] > 1e-2
    for defence in VARIANTS:
        assert mse[defence, "worst_case"] <= min(mse[defence, name] for name in ATTACKS)


def test_attacks_that_differ_in_nothing_there_is_share_one_search() -> None:
    known, plain = Idlg(mask="known", unmix=True), Idlg()
    assert search_of(known, VARIANTS["none"]) == search_of(plain, VARIANTS["none"])
    assert search_of(known, VARIANTS["both"]) == Idlg(mask="known")
    attacks = {"known": Idlg(iterations=3, mask="known"), "plain": Idlg(iterations=3)}
    found = run_attacks(network(), scene(2), VARIANTS, attacks, seed=0).pictures
    assert torch.equal(found["none", "known"], found["none", "plain"])
    assert not torch.equal(found["both", "known"], found["both", "plain"])


def test_batches_are_attacked_and_scored_image_by_image() -> None:
    attack = {"idlg": Idlg(iterations=150)}
    found = run_attacks(network(), scene(4), {"none": VARIANTS["none"]}, attack, seed=0, batch=2)
    rows = [row for row in found.rows if row["attack"] == "idlg"]
    assert [row["image"] for row in rows] == [0, 1, 2, 3]
    assert min(row["mse"] for row in rows) < 1e-3


def test_a_broken_network_gives_failed_rows() -> None:
    net = network()
    with torch.no_grad():
        net.classifier.weight.fill_(torch.nan)
    found = run_attacks(net, scene(2), {"none": VARIANTS["none"]}, ATTACKS, seed=0)
    assert {row["status"] for row in found.rows} == {"failed"}
    assert all(row["mse"] is None for row in found.rows)
    assert table(found.rows)["none", "worst_case"]["failed"] == 2


def test_the_configuration_takes_names_for_kinds() -> None:
    options: dict[str, Any] = {"idlg": None, "known": {"kind": "cosine", "mask": "known"}}
    study = InversionStudy.model_validate({"attacks": options})
    assert study.attacks == {"idlg": Idlg(), "known": Cosine(mask="known")}
    assert set(InversionStudy().attacks) > {"dlg", "idlg", "cosine", "features", "mean_image"}


@pytest.mark.parametrize(
    "wrong",
    [{"attacks": {"idlg": {"lr": 0.1}}}, {"attacks": {}}, {"pictures": 3}, {"images": 1}],
)
def test_the_configuration_refuses(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        InversionStudy.model_validate(wrong)


def test_no_attacked_image_is_among_the_others() -> None:
    attacked, others = trial.attacked_and_others(16)
    assert (len(attacked[1]), len(others[1])) == (16, 1797 - 16)
    same = (attacked[0][:, None] == others[0]).flatten(2).all(2)
    assert not same.any()


def test_the_pseudo_image_is_another_of_the_same_class() -> None:
    attacked, others = trial.attacked_and_others(8)
    scene = trial.scene_of(attacked, others, 0.25, seed=0)
    pseudo = (scene.mixed - 0.25 * scene.images) / 0.75
    nearest = (pseudo[:, None] - others[0]).abs().flatten(2).amax(2).min(1)
    assert nearest.values.max() < 1e-5
    assert torch.equal(others[1][nearest.indices], scene.labels)


def test_training_makes_the_network_right() -> None:
    attacked, others = trial.attacked_and_others(200)
    right = [
        (trial.trained(others, steps, seed=0)(attacked[0]).argmax(1) == attacked[1]).float().mean()
        for steps in (0, 150)
    ]
    assert right[0] < 0.3 < 0.6 < right[1]


@pytest.mark.slow
def test_the_table_has_a_line_for_each_attack(capsys: pytest.CaptureFixture[str]) -> None:
    trial.main(["--images", "2", "--seeds", "2", "--steps", "100"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "| attack | none | pseudo_data | gradient_mask | both | dp_sgd | soteria |"
    names = [line.split("`")[1] for line in lines if line.startswith("| `")]
    assert names[-1] == "worst_case"
    assert len(names) == 10
