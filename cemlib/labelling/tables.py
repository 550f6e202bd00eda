"""Collect the records of a labelling study, and compute its tables."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from cemlib.config.labelling import LabellingStudy
from cemlib.labelling.accounting import privacy_rows, stated
from cemlib.records.seal import read_sealed
from cemlib.report.statistics import holm, mean_columns, paired_difference
from cemlib.study.job import Job

KEYS = ("status", "images", "seed", "participants", "sweep")

SCORES = ("init_top1", "capc_top1", "iel_top1")
QUALITY = ("label_accuracy", "refused", "mean_weight")
PAIRS = (("capc", "init"), ("iel", "init"), ("iel", "capc"), ("iel", "constant"))
SECONDS = ("encrypt_seconds", "decrypt_seconds")
# Seconds for one image and 15 participants, from the published text: for comparison, not measured.
PUBLISHED = {"key_bits": 2048, "encrypt_seconds": 1.20, "decrypt_seconds": 0.49}


@dataclass(frozen=True)
class Results:
    """The results of all repeats; a failed one is counted, but has no numbers."""

    repeats: pd.DataFrame  # the record of each repeat with each number of images
    sweep: pd.DataFrame  # a row for each epsilon of these; infinity stands for no noise
    rounds: pd.DataFrame  # a row for each timed round


def collect(job: Job[LabellingStudy]) -> Results:
    """Read every record of a study; raise FileError if one is missing or damaged."""
    records = [read_sealed(path, KEYS) for path in job.inputs["metrics"]]
    swept = ["images", "seed", "epsilon", "sigma", *SCORES, *QUALITY]
    sweep = pd.json_normalize(records, "sweep", ["images", "seed"]).reindex(columns=swept)
    sweep["epsilon"] = sweep["epsilon"].astype(float).fillna(math.inf)
    rounds = pd.DataFrame(read_sealed(job.plan.layout.cost, ("rounds",))["rounds"])
    return Results(pd.DataFrame(records), sweep, rounds)


def accuracy_table(results: Results, study: LabellingStudy) -> pd.DataFrame:
    """Return accuracy, label quality and privacy by number of images."""
    privacy, rows = stated(study, study.privacy.epsilon), []
    for images, group in results.repeats.groupby("images", sort=False):
        counts = {"n_repeats": len(group), "n_failed": int((group["status"] == "failed").sum())}
        means = _means(group, (*SCORES, "constant_top1", *QUALITY))
        rows.append({"images": images, **counts, **means, **privacy})
    return pd.DataFrame(rows)


def differences_table(results: Results, _study: LabellingStudy) -> pd.DataFrame:
    """Return paired differences over the repeats, with Holm's correction over all rows."""
    rows = []
    for images, group in results.repeats.groupby("images", sort=False):
        finished = group[group["status"] == "ok"].sort_values("seed")
        for first, second in PAIRS:
            top1 = finished[[f"{first}_top1", f"{second}_top1"]].astype(float).to_numpy()
            named = {"images": images, "first": first, "second": second}
            rows.append(named | paired_difference(*top1.T.tolist()))
    table = pd.DataFrame(rows)
    return table.assign(p_holm=holm(table["p"].tolist()))


def epsilon_table(results: Results, study: LabellingStudy) -> pd.DataFrame:
    """Return accuracy and label quality by epsilon of one query; the last has no noise."""
    sweep, rows = results.sweep, []
    epsilons = sorted({math.inf if epsilon is None else epsilon for epsilon in study.epsilons()})
    for images, group in results.repeats.groupby("images", sort=False):
        failed = int((group["status"] == "failed").sum())
        for epsilon in epsilons:
            part = sweep[(sweep["images"] == images) & (sweep["epsilon"] == epsilon)]
            row = {"images": images} | stated(study, epsilon) | {"n_repeats": len(group)}
            rows.append(row | _means(part, (*SCORES, *QUALITY)) | {"n_failed": failed})
    return pd.DataFrame(rows)


def privacy_table(_results: Results, study: LabellingStudy) -> pd.DataFrame:
    """Return the privacy of a vote by observer and kind of neighbours."""
    return pd.DataFrame(privacy_rows(study))


def cost_table(results: Results, study: LabellingStudy) -> pd.DataFrame:
    """Return seconds and bytes of an image by key length, with the exponent of their growth."""
    rounds = results.rounds.assign(source="ours", participants=study.participants)
    way = ["packing", "blinding", "precomputed"]
    for name in SECONDS:
        for _, group in rounds.groupby(way, sort=False):
            exponent = name.replace("seconds", "exponent")
            rounds.loc[group.index, exponent] = growth_exponent(group, name)
    published = pd.DataFrame([PUBLISHED | {"source": "published", "participants": 15}])
    table = pd.concat([rounds, published], ignore_index=True)
    return table.set_index(["source", "participants", "key_bits", *way]).reset_index()


def growth_exponent(rows: pd.DataFrame, name: str) -> float:
    """Return a of seconds = c * key_bits^a, by least squares on logarithms; NaN if undefined.

    >>> rows = pd.DataFrame({"key_bits": [256, 512, 1024], "s": [1.0, 8.0, 64.0]})
    >>> round(growth_exponent(rows, "s"), 6), growth_exponent(rows[:1], "s")
    (3.0, nan)
    """
    if len(rows) < 2 or (rows[name] <= 0).any():
        return float("nan")
    return float(np.polyfit(np.log(rows["key_bits"]), np.log(rows[name]), 1)[0])


def _means(group: pd.DataFrame, names: Sequence[str]) -> dict[str, float]:
    """Return mean and Student's t interval of each score over the repeats that have it."""
    columns = [mean_columns(name, group[name]) for name in names]
    return {name: value for each in columns for name, value in each.items()}
