"""The tables of a labelling study, as numbers."""

from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd

from cemlib.config.labelling import LabellingStudy
from cemlib.labelling.collect import QUALITY, SCORES, Results
from cemlib.labelling.cost import growth_exponent
from cemlib.labelling.privacy import stated
from cemlib.report.statistics import difference_columns, holm, mean_columns, paired_difference

PAIRS = (("capc", "init"), ("iel", "init"), ("iel", "capc"), ("iel", "constant"))
SECONDS = ("encrypt_seconds", "decrypt_seconds")
# Of one image and 15 participants at 2,048 bits, by the published text: not ours, for comparison.
PUBLISHED = {"key_bits": 2048, "encrypt_seconds": 1.20, "decrypt_seconds": 0.49}


def accuracy_table(results: Results, study: LabellingStudy) -> pd.DataFrame:
    """Accuracy before and after, label quality, and the whole privacy, by number of images."""
    privacy = stated(study, study.privacy.epsilon)
    rows = [
        {"images": images, **_means(group, (*SCORES, "constant_top1", *QUALITY)), **privacy}
        for images, group in _groups(results.repeats, study)
    ]
    return pd.DataFrame(rows)


def differences_table(results: Results, study: LabellingStudy) -> pd.DataFrame:
    """Paired differences over the repeats; Holm's correction is over all rows."""
    rows = [
        {"images": images, "first": first, "second": second, **_difference(group, first, second)}
        for images, group in _groups(results.repeats, study)
        for first, second in PAIRS
    ]
    table = pd.DataFrame(rows)
    table["p_holm"] = holm(table["p"].tolist())
    return table


def epsilon_table(results: Results, study: LabellingStudy) -> pd.DataFrame:
    """Accuracy and label quality against the epsilon of one query; the last has no noise."""
    rows = []
    for images, group in _groups(results.sweep, study):
        for epsilon, part in group.groupby("epsilon"):
            privacy = stated(study, float(str(epsilon)))
            rows.append({"images": images, **privacy, **_means(part, (*SCORES, *QUALITY))})
    return pd.DataFrame(rows)


def cost_table(parts: dict[str, pd.DataFrame], participants: int) -> pd.DataFrame:
    """Seconds and bytes of an image against key length, with the exponent of their growth.

    The rows of `source` `published` are the figures of the published text, `peer` those of phe,
    whose scalar encryption in the same job is `peer_ratio` times as slow as a row of ours.
    """
    rounds = parts["rounds"].assign(source="ours", participants=participants)
    rounds["peer_ratio"] = _peer_seconds(rounds, parts["peer"]) / rounds["encrypt_seconds"]
    way = ["packing", "blinding", "precomputed"]
    for name in SECONDS:
        rounds[f"{name[:7]}_exponent"] = 0.0
        for _, group in rounds.groupby(way, sort=False):
            rounds.loc[group.index, f"{name[:7]}_exponent"] = _exponent(group, name)
    peer = parts["peer"].assign(source="peer (phe)", participants=participants)
    published = pd.DataFrame([PUBLISHED | {"source": "published", "participants": 15}])
    table = pd.concat([part for part in (rounds, peer, published) if len(part)], ignore_index=True)
    first = ["source", "participants", "key_bits", *way]
    return table[[*first, *(name for name in table.columns if name not in first)]]


def _peer_seconds(rounds: pd.DataFrame, peer: pd.DataFrame) -> "pd.Series[float]":
    """The peer's seconds at each row's key length; NaN where it is not installed."""
    seconds = dict(zip(peer["key_bits"], peer["encrypt_seconds"], strict=True)) if len(peer) else {}
    return rounds["key_bits"].map(seconds).astype(float)


def _exponent(group: pd.DataFrame, name: str) -> float:
    """Of the growth with the key length; NaN of one length, or where less than the clock shows."""
    if len(group) < 2 or (group[name] <= 0).any():
        return float("nan")
    return growth_exponent(group["key_bits"].tolist(), group[name].tolist())


def _groups(frame: pd.DataFrame, study: LabellingStudy) -> Iterator[tuple[int, pd.DataFrame]]:
    """The rows of each number of images, in the order of the configuration."""
    return ((images, frame[frame["images"] == images]) for images in study.images)


def _means(group: pd.DataFrame, names: Sequence[str]) -> dict[str, Any]:
    """Mean and Student-t interval of each score over the repeats that have it."""
    row: dict[str, Any] = {"n_repeats": len(group)}
    if "status" in group:
        row["n_failed"] = int((group["status"] == "failed").sum())
    for name in names:
        row |= mean_columns(name, group[name].astype(float).tolist())
    return row


def _difference(group: pd.DataFrame, first: str, second: str) -> dict[str, Any]:
    finished = group[group["status"] == "ok"].sort_values("seed")
    ours, theirs = (finished[f"{name}_top1"].astype(float).tolist() for name in (first, second))
    return difference_columns(paired_difference(ours, theirs))
