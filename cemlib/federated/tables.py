"""Collect the records of a federated study, and make its tables as numbers."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

import pandas as pd

from cemlib.config.federated import Federated
from cemlib.federated.inversion.scoring import MEASURES, WORST_CASE, Row, worst_cases
from cemlib.federated.inversion.summary import summary
from cemlib.records.files import read_jsonl
from cemlib.records.seal import checked, read_sealed
from cemlib.report.statistics import difference_columns, holm, mean_columns, paired_difference
from cemlib.study.federated import attack_folder
from cemlib.study.plan import Plan

_FATES = ("asked", "dropped", "excluded")
_BYTES = ("bytes_up", "bytes_down")
_SECONDS = ("round_seconds", "wall_seconds")
RUN_KEYS = ("defence", "seed", "status", "reason", "top1", "epsilon", "epochs")
ROUND_KEYS = ("defence", "seed", "epoch", "train_loss", "val_top1", "val_loss", "seconds")
GAN_KEYS = ("seed", "epoch", "d_loss", "d_real", "d_fake", "g_loss", "variance", "drift")


@dataclass(frozen=True)
class Results:
    """Hold what a study found.

    Attributes:
        runs: One row for each training.
        rounds: One row for each of its rounds, with `defence` and `seed`.
        attacks: One row for each variant and attack, `worst_case` among them, with the means over
            images and seeds and their intervals (`cemlib.federated.inversion.summary`).
        gans: One row for each epoch of the clients' GANs, with `seed`.
        pseudo: One row for each seed's GANs: `seed`, `status`, `wall_seconds`, `source`.
    """

    runs: pd.DataFrame
    rounds: pd.DataFrame
    attacks: pd.DataFrame
    gans: pd.DataFrame
    pseudo: pd.DataFrame


def collect(plan: Plan[Federated]) -> Results:
    """Read every record of a study.

    Raises:
        FileError: if one is missing or damaged.
    """
    keys = [*RUN_KEYS, *_FATES, *_BYTES, *_SECONDS]
    study, trained = plan.study, list(product(plan.study.variants, plan.study.seeds))
    runs = [read_sealed(plan.layout.run(*run).metrics, keys) for run in trained]
    rounds = [
        {"defence": variant, "seed": seed, **row}
        for variant, seed in trained
        for row in read_jsonl(checked(plan.layout.run(variant, seed).history))
    ]
    kept = ("seed", "status", "wall_seconds", "extractor")
    seeds = study.seeds if study.mixing_variants() else ()
    gans = [read_sealed(plan.layout.pseudo(seed).metrics, kept) for seed in seeds]
    epochs = [
        {"seed": gan["seed"], **row}
        for gan in gans
        for row in read_jsonl(checked(plan.layout.pseudo(gan["seed"]).history))
    ]
    pseudo = [
        {key: gan[key] for key in kept[:3]} | {"source": gan["extractor"]["source"]} for gan in gans
    ]
    return Results(
        runs=pd.DataFrame([{key: run[key] for key in keys} for run in runs]),
        rounds=pd.DataFrame(rounds, columns=ROUND_KEYS),
        attacks=pd.DataFrame(attack_summary(plan)),
        gans=pd.DataFrame(epochs, columns=GAN_KEYS),
        pseudo=pd.DataFrame(pseudo),
    )


def attack_summary(plan: Plan[Federated]) -> list[Row]:
    """Return means of every variant under every attack, and the strongest for each image."""
    found: list[Row] = []
    for variant in plan.study.variants:
        seeds = [_rows(plan, variant, seed) for seed in plan.study.seeds]
        found += summary([rows + worst_cases(rows) for rows in seeds])
    return found


def _rows(plan: Plan[Federated], variant: str, seed: int) -> list[Row]:
    from pyarrow import parquet

    rows: list[Row] = []
    for attack in plan.study.inversion.attacks:
        file = checked(attack_folder(plan, variant, seed, attack).per_image)
        named = {"defence": variant, "attack": attack}
        rows += [named | row for row in parquet.read_table(file).to_pylist()]
    return rows


def settings_of(study: Federated, variant: str) -> dict[str, Any]:
    """Return what a variant does, in one row; None where it does not."""
    chosen = study.variants[variant]
    mixing, mask = chosen.mixing, chosen.mask
    drawn = None if mixing is None or mixing.beta is None else f"Beta{mixing.beta}"
    return {
        "lam": drawn or (mixing.lam if mixing else None),
        "alpha": mask.alpha if mask else None,
        "beta": ("all" if mask.beta is None else mask.beta) if mask else None,
        "order": mask.order if mask else None,
        "noise_multiplier": chosen.dp_sgd.noise_multiplier if chosen.dp_sgd else None,
    }


def accuracy_table(results: Results, study: Federated) -> pd.DataFrame:
    """Return test accuracy of each variant over the seeds, and how its rounds went."""
    rows = []
    for variant in study.variants:
        group = results.runs[results.runs["defence"] == variant]
        row = {"variant": variant, **settings_of(study, variant), **_counts(group)}
        row |= mean_columns("top1", group["top1"]) | {"epsilon": group["epsilon"].max()}
        rows.append(row | {name: int(group[name].sum()) for name in _FATES})
    return pd.DataFrame(rows)


def differences_table(results: Results, study: Federated) -> pd.DataFrame:
    """Return accuracy of each variant minus the reference's, paired over the seeds."""
    runs = results.runs.sort_values("seed")
    reference = runs[runs["defence"] == study.reference].set_index("seed")["top1"]
    rows = []
    for variant in (name for name in study.variants if name != study.reference):
        ours = runs[runs["defence"] == variant].set_index("seed")["top1"]
        pairs = pd.concat([ours, reference], axis=1).astype(float).dropna()
        found = paired_difference(pairs.iloc[:, 0].tolist(), pairs.iloc[:, 1].tolist())
        named = {"variant": variant, "reference": study.reference}
        rows.append(named | difference_columns(found))
    columns = ("variant", "reference", *difference_columns(paired_difference([], [])))
    table = pd.DataFrame(rows, columns=columns)
    table["p_holm"] = holm(table["p"].tolist())
    return table


def privacy_table(results: Results, study: Federated) -> pd.DataFrame:
    """Return scores of every attack on every variant, `worst_case` first."""
    table = results.attacks.rename(columns={"defence": "variant"})
    masks = {name: getattr(a, "mask", "ignored") for name, a in study.inversion.attacks.items()}
    knowledge = table["attack"].map(masks).fillna("")
    table.insert(2, "mask", knowledge)
    attacks = [WORST_CASE, *study.inversion.attacks]
    order = table["attack"].map({name: place for place, name in enumerate(attacks)})
    return table.assign(_order=order).sort_values("_order", kind="stable").drop(columns="_order")


def tradeoff_table(results: Results, study: Federated) -> pd.DataFrame:
    """Return accuracy beside the worst case over the attacks, by settings of each variant."""
    worst = results.attacks[results.attacks["attack"] == WORST_CASE].set_index("defence")
    rows = []
    for variant in study.variants:
        group = results.runs[results.runs["defence"] == variant]
        row = {"variant": variant, **settings_of(study, variant), **_counts(group)}
        row |= mean_columns("top1", group["top1"])
        ends = ("mean", "ci_low", "ci_high")
        names = [f"{score}_{end}" for score in MEASURES for end in ends]
        rows.append(row | {name: worst.loc[variant, name] for name in names})
    return pd.DataFrame(rows)


def cost_table(results: Results, study: Federated) -> pd.DataFrame:
    """Return seconds and bytes of a round, and of the GANs before the first, by variant."""
    rows = []
    gans = results.pseudo["wall_seconds"].tolist() if len(results.pseudo) else []
    for variant in study.variants:
        group = results.runs[results.runs["defence"] == variant]
        rounds = group["epochs"].where(group["epochs"] > 0)  # of none there is no mean
        row = {"variant": variant, **_counts(group)} | mean_columns(
            "seconds", group["round_seconds"]
        )
        row |= {f"{way}_per_round": (group[way] / rounds).mean() for way in _BYTES}
        mixes = study.variants[variant].mixing is not None
        rows.append(row | {"gan_seconds": sum(gans) / len(gans) if mixes and gans else None})
    table = pd.DataFrame(rows)
    plain = table.loc[table["variant"] == study.reference, "seconds_mean"].iloc[0]
    return table.assign(times_reference=table["seconds_mean"] / plain)


def _counts(group: pd.DataFrame) -> dict[str, int]:
    return {"n_seeds": len(group), "n_failed": int((group["status"] == "failed").sum())}


TABLES: dict[str, Callable[[Results, Federated], pd.DataFrame]] = {
    "accuracy": accuracy_table,
    "differences": differences_table,
    "privacy": privacy_table,
    "tradeoff": tradeoff_table,
    "cost": cost_table,
}
"""Tables by name."""
