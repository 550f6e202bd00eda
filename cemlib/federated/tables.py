"""The tables of a federated study, as numbers."""

from typing import Any

import pandas as pd

from cemlib.config.federated import Federated
from cemlib.federated.collect import Results
from cemlib.federated.inversion.scoring import MEASURES, WORST_CASE
from cemlib.report.statistics import difference_columns, holm, mean_columns, paired_difference

SETTINGS = ("lam", "alpha", "beta", "order", "noise_multiplier")


def settings_of(study: Federated, variant: str) -> dict[str, Any]:
    """What a variant does, in one row; None where it does not."""
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
    """Test accuracy of each variant over the seeds, and how its rounds went."""
    rows = []
    for variant in study.variants:
        group = results.runs[results.runs["defence"] == variant]
        row = {"variant": variant, **settings_of(study, variant), **_counts(group)}
        row |= mean_columns("top1", group["top1"]) | {"epsilon": group["epsilon"].max()}
        rows.append(row | {name: int(group[name].sum()) for name in _FATES})
    return pd.DataFrame(rows)


def differences_table(results: Results, study: Federated) -> pd.DataFrame:
    """Accuracy of each variant minus the reference's, paired over the seeds."""
    runs = results.runs.sort_values("seed")
    reference = runs[runs["defence"] == study.reference].set_index("seed")["top1"]
    rows = []
    for variant in (name for name in study.variants if name != study.reference):
        ours = runs[runs["defence"] == variant].set_index("seed")["top1"]
        pairs = pd.concat([ours, reference], axis=1).astype(float).dropna()
        found = paired_difference(pairs.iloc[:, 0].tolist(), pairs.iloc[:, 1].tolist())
        named = {"variant": variant, "reference": study.reference}
        rows.append(named | difference_columns(found))
    table = pd.DataFrame(rows, columns=[*_DIFFERENCE])
    table["p_holm"] = holm(table["p"].tolist())
    return table


def privacy_table(results: Results, study: Federated) -> pd.DataFrame:
    """Scores of every attack on every variant, `worst_case` first."""
    table = results.attacks.rename(columns={"defence": "variant"})
    masks = {name: getattr(a, "mask", "ignored") for name, a in study.inversion.attacks.items()}
    knowledge = table["attack"].map(masks).fillna("")
    table.insert(2, "mask", knowledge)
    attacks = [WORST_CASE, *study.inversion.attacks]
    order = table["attack"].map({name: place for place, name in enumerate(attacks)})
    return table.assign(_order=order).sort_values("_order", kind="stable").drop(columns="_order")


def tradeoff_table(results: Results, study: Federated) -> pd.DataFrame:
    """Accuracy beside the worst case over the attacks, by the settings of each variant."""
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
    """Seconds and bytes of a round, and of the GANs before the first, by variant."""
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


_FATES = ("asked", "dropped", "excluded")
_BYTES = ("bytes_up", "bytes_down")
_DIFFERENCE = (
    "variant",
    "reference",
    "n_pairs",
    "difference",
    "ci_low",
    "ci_high",
    "p",
    "p_permutation",
    "g_z",
)
