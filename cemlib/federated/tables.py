"""Collect the records of a federated study, and compute its tables."""

import math
from dataclasses import dataclass
from itertools import product
from typing import Any

import pandas as pd

from cemlib.config.federated import Federated, Variant
from cemlib.federated.inversion.scoring import MEASURES, WORST_CASE, Row, summary, worst_cases
from cemlib.records.files import read_jsonl
from cemlib.records.seal import checked, read_sealed
from cemlib.report.statistics import holm, mean_columns, paired_difference
from cemlib.study.federated import attack_folder
from cemlib.study.plan import Plan

_FATES = ("asked", "dropped", "excluded")
_BYTES = ("bytes_up", "bytes_down")
_RUN = ("defence", "seed", "status", "top1", "epsilon", "epochs", "round_seconds")
ROUND_KEYS = ("defence", "seed", "epoch", "train_loss", "val_top1", "val_loss", "seconds")
GAN_KEYS = ("seed", "epoch", "d_loss", "d_real", "d_fake", "g_loss", "variance", "drift")


@dataclass(frozen=True)
class Results:
    """The results of a study."""

    runs: pd.DataFrame  # one row for each training
    rounds: pd.DataFrame  # one row for each round of each training, with `defence` and `seed`
    # One row for each variant and attack, `worst_case` among them, with the means over images and
    # seeds and their intervals (`cemlib.federated.inversion.scoring.summary`).
    attacks: pd.DataFrame
    gans: pd.DataFrame  # one row for each epoch of the clients' GANs, with `seed`
    pseudo: pd.DataFrame  # one row for each seed's GANs: `wall_seconds`, `source`


def collect(plan: Plan[Federated]) -> Results:
    """Read every record of a study; raise FileError if one is missing or damaged."""
    study, keys = plan.study, [*_RUN, *_FATES, *_BYTES]
    runs, rounds, attacks, pseudo, epochs = [], [], [], [], []
    for variant, seed in product(study.variants, study.seeds):
        folder = plan.layout.run(variant, seed)
        runs.append(read_sealed(folder.metrics, keys))
        named = {"defence": variant, "seed": seed}
        rounds += [named | row for row in read_jsonl(checked(folder.history))]
    for variant in study.variants:
        seeds = [_rows(plan, variant, seed) for seed in study.seeds]
        for attack in seeds[0]:
            found = summary([rows[attack] for rows in seeds])
            attacks.append({"defence": variant, "attack": attack} | found)
    for seed in study.seeds if study.mixes() else ():
        made = plan.layout.gans(seed)
        record = read_sealed(made.metrics, ("wall_seconds", "extractor"))
        pseudo.append((record["wall_seconds"], record["extractor"]["source"]))
        epochs += [{"seed": seed} | row for row in read_jsonl(checked(made.history))]
    return Results(
        runs=pd.DataFrame(runs, columns=keys),
        rounds=pd.DataFrame(rounds, columns=ROUND_KEYS),
        attacks=pd.DataFrame(attacks),
        gans=pd.DataFrame(epochs, columns=GAN_KEYS),
        pseudo=pd.DataFrame(pseudo, columns=("wall_seconds", "source")),
    )


def _rows(plan: Plan[Federated], variant: str, seed: int) -> dict[str, list[Row]]:
    """Return the rows of every attack on one training, by attack, and of the worst case."""
    found: dict[str, Any] = {}
    for attack in plan.study.inversion.attacks:
        file = checked(attack_folder(plan, variant, seed, attack).per_image)
        found[attack] = pd.read_parquet(file).to_dict("records")
    return found | {WORST_CASE: worst_cases(found)}


def settings_of(study: Federated, variant: str) -> dict[str, Any]:
    """Return the settings of a variant in one row, with None for those that it does not have."""
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
    """Return test accuracy of each variant over the seeds, and the counts of its clients."""
    rows = [
        {"variant": variant, **settings_of(study, str(variant)), **_counts(group)}
        | mean_columns("top1", group["top1"])
        | {"epsilon": _epsilon(study.variants[str(variant)], group)}
        | {name: int(group[name].sum()) for name in _FATES}
        for variant, group in results.runs.groupby("defence", sort=False)
    ]
    return pd.DataFrame(rows)


def _epsilon(chosen: Variant, group: pd.DataFrame) -> Any:
    """Return the largest epsilon; a record has null for infinity, as JSON has none."""
    noiseless = chosen.dp_sgd is not None and chosen.dp_sgd.noise_multiplier == 0
    return math.inf if noiseless and chosen.mixing is None else group["epsilon"].max()


def _counts(group: pd.DataFrame) -> dict[str, int]:
    return {"n_seeds": len(group), "n_failed": int((group["status"] == "failed").sum())}


def differences_table(results: Results, study: Federated) -> pd.DataFrame:
    """Return the accuracy of each variant minus the reference's, paired by seed."""
    top1 = results.runs.pivot(index="seed", columns="defence", values="top1").astype(float)
    rows = []
    for variant in (name for name in study.variants if name != study.reference):
        ours, theirs = top1[[variant, study.reference]].dropna().to_numpy().T.tolist()
        named = {"variant": variant, "reference": study.reference}
        rows.append(named | paired_difference(ours, theirs))
    columns = ("variant", "reference", *paired_difference([], []))
    table = pd.DataFrame(rows, columns=columns)
    return table.assign(p_holm=holm(table["p"].tolist()))


def privacy_table(results: Results, study: Federated) -> pd.DataFrame:
    """Return the scores of every attack on every variant, `worst_case` first."""
    table = results.attacks.rename(columns={"defence": "variant"})
    masks = {name: getattr(a, "mask", "ignored") for name, a in study.inversion.attacks.items()}
    table.insert(2, "mask", table["attack"].map(masks).fillna(""))
    order = [WORST_CASE, *study.inversion.attacks]
    return table.sort_values("attack", kind="stable", key=lambda column: column.map(order.index))


def tradeoff_table(results: Results, study: Federated) -> pd.DataFrame:
    """Return accuracy and the worst case over the attacks, with the settings of each variant."""
    worst = results.attacks[results.attacks["attack"] == WORST_CASE].set_index("defence")
    columns = [f"{score}_{end}" for score in MEASURES for end in ("mean", "ci_low", "ci_high")]
    table = accuracy_table(results, study).drop(columns=["epsilon", *_FATES])
    return table.join(worst[[*columns, "failed"]], on="variant")


def cost_table(results: Results, study: Federated) -> pd.DataFrame:
    """Return seconds and bytes of a round, and seconds of training the GANs, by variant."""
    rows = []
    for variant, group in results.runs.groupby("defence", sort=False):
        rounds = group["epochs"].where(group["epochs"] > 0)  # without a round there is no mean
        sent = {f"{way}_per_round": (group[way] / rounds).mean() for way in _BYTES}
        mixes = study.variants[str(variant)].mixing is not None
        gans = {"gan_seconds": results.pseudo["wall_seconds"].mean() if mixes else None}
        seconds = mean_columns("seconds", group["round_seconds"])
        rows.append({"variant": variant, **_counts(group), **seconds, **sent, **gans})
    table = pd.DataFrame(rows)
    plain = table.loc[table["variant"] == study.reference, "seconds_mean"].iloc[0]
    return table.assign(times_reference=table["seconds_mean"] / plain)
