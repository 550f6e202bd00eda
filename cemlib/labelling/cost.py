"""Measure what a round costs in CPU seconds and bytes, by key length and by what makes it cheaper.

Packing divides the number of ciphertexts, `short` blindings replace a power by products from a
table, and blindings made beforehand leave one product for the time of the vote.
"""

import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, TypeAlias, get_args

import numpy as np

from cemlib.config.labelling import SECURE_BITS, LabellingStudy
from cemlib.labelling.messages import Round
from cemlib.labelling.paillier import Blinding
from cemlib.labelling.parties import Aggregator, Participant
from cemlib.labelling.protocol import Keys, deal, exchange
from cemlib.labelling.setting import Packing, Setting
from cemlib.records.seal import write_sealed
from cemlib.study.job import Job

Row: TypeAlias = dict[str, Any]


def run(job: Job[LabellingStudy]) -> list[Path]:
    """Time the cryptography of a study, and write the record; return its path."""
    start, study = time.perf_counter(), job.plan.study
    record = {
        "kind": "cost",
        "rounds": measured(study.cost.key_bits, study.participants, images=study.cost.images),
        "command": job.command,
        "wall_seconds": time.perf_counter() - start,
        **job.record(None),
    }
    write_sealed(job.plan.layout.cost, record)
    return [job.plan.layout.cost]


def measured(
    key_bits: Sequence[int], participants: int = 15, classes: int = 10, images: int = 18
) -> list[Row]:
    """Return the cost of labelling an image, all participants together.

    Args:
        key_bits: lengths of n.
        participants: N.
        classes: k.
        images: labelled in one round where packing goes across images, one otherwise.

    Returns:
        For every `key_bits`, `packing`, `blinding`, and whether blindings were `precomputed`, the
        CPU seconds of an image: `offline_seconds` of blindings made beforehand, `encrypt_seconds`
        of the votes, and `decrypt_seconds` of products, partial decryptions and reading the
        tallies; the `bytes` to the aggregator, and the `ciphertexts` of a participant.
    """
    found: list[Row] = []
    for bits in key_bits:
        testing = bits < SECURE_BITS
        setting = Setting(participants, classes, 1.0, bits, insecure_for_testing=testing)
        keys = deal(setting)
        assert keys.public.table  # made once for a key, and not counted
        for packing, blinding in product(get_args(Packing), get_args(Blinding)):
            own = replace(setting, packing=packing, blinding=blinding)
            found += _round(own, keys, images if packing == "images" else 1)
    return found


def _round(setting: Setting, keys: Keys, images: int) -> list[Row]:
    """Carry out one round; return its cost without and with blindings made beforehand."""
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
            "packing": setting.packing,
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
