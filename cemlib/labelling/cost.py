"""Measure the cost of a round in CPU seconds and bytes, by key length and optimisation."""

import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, TypeAlias, get_args

import numpy as np

from cemlib.config import ConfigError
from cemlib.config.labelling import SECURE_BITS, LabellingStudy
from cemlib.labelling.errors import LabellingError
from cemlib.labelling.messages import Round
from cemlib.labelling.paillier import Blinding
from cemlib.labelling.parties import Aggregator, Participant
from cemlib.labelling.protocol import Keys, deal, exchange
from cemlib.labelling.setting import Packing, Setting
from cemlib.records.seal import write_sealed
from cemlib.study.job import Job

Row: TypeAlias = dict[str, Any]
# How the counters of a round are packed; `label` and `none` stand for rounds of a single image.
WAYS: dict[str, Packing] = {"none": "none", "label": "images", "images": "images"}


def run(job: Job[LabellingStudy]) -> list[Path]:
    """Measure and record the costs; raise ConfigError if counters do not fit into a ciphertext."""
    start = time.perf_counter()
    try:
        rounds = measured(**job.settings)
    except LabellingError as error:
        raise ConfigError(f"encryption and cost do not fit together: {error}") from error
    record = {
        "kind": "cost",
        "rounds": rounds,
        "wall_seconds": time.perf_counter() - start,
        **job.record(None),
    }
    write_sealed(job.plan.layout.cost, record)
    return [job.plan.layout.cost]


def measured(
    key_bits: Sequence[int],
    participants: int = 15,
    classes: int = 10,
    images: int = 18,
    mask_bits: int = 40,
) -> list[Row]:
    """Return the cost of labelling one image, summed over all participants.

    Where packing goes across images, `images` of them share a round; otherwise a round has one.
    Each key length, packing and blinding, `precomputed` or not, has a row with the `bytes` sent to
    the aggregator, the `ciphertexts` of one participant, and the CPU seconds: `offline_seconds` for
    precomputed blindings, `encrypt_seconds` for the votes, and `decrypt_seconds` for products,
    partial decryptions and reading the tallies.
    """
    found: list[Row] = []
    for bits in key_bits:
        testing = bits < SECURE_BITS
        setting = Setting(participants, classes, 0.0, bits, mask_bits, insecure_for_testing=testing)
        keys = deal(setting)
        _ = keys.public.table  # computed once per key, and not counted
        for way, blinding in product(WAYS, get_args(Blinding)):
            own = replace(setting, packing=WAYS[way], blinding=blinding)
            found += _round(way, own, keys, images if way == "images" else 1)
    return found


def _round(way: str, setting: Setting, keys: Keys, images: int) -> list[Row]:
    """Carry out one round; return its cost without and with blindings computed in advance."""
    round_ = Round(keys.public, setting, images)
    votes = np.arange(images) % setting.classes
    participants = [Participant(round_, share, votes) for share in keys.shares]
    aggregator = Aggregator(round_)
    start = time.process_time()
    for party in participants:
        party.prepare()
    prepared = time.process_time()
    sent = [party.vote() for party in participants]
    voted = time.process_time()
    parts = exchange(aggregator, participants, sent)
    aggregator.counts()
    decrypt, vote, prepare = time.process_time() - voted, voted - prepared, prepared - start
    return [
        {
            "key_bits": setting.key_bits,
            "packing": way,
            "blinding": setting.blinding,
            "precomputed": precomputed,
            "offline_seconds": offline / images,
            "encrypt_seconds": online / images,
            "decrypt_seconds": decrypt / images,
            "bytes": sum(map(len, sent + parts)) / images,
            "ciphertexts": round_.ciphertexts / images,
        }
        for precomputed, offline, online in ((False, 0.0, prepare + vote), (True, prepare, vote))
    ]
