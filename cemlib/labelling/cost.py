"""Measure what a round costs against key length, in CPU seconds and bytes, and what helps.

Packing divides the number of ciphertexts, `short` blindings and their table replace a power by
products, and blindings made beforehand leave one product for the time of the vote. The Chinese
remainder theorem is for who knows p and q: the dealer, not the participants, whose partial
decryptions therefore cost a whole power each.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from cemlib.config.labelling import LabellingStudy
from cemlib.labelling.arithmetic import powmod
from cemlib.labelling.messages import Round
from cemlib.labelling.paillier import Blinding, PublicKey
from cemlib.labelling.parties import Aggregator, Participant
from cemlib.labelling.protocol import open_sums
from cemlib.labelling.setting import Packing, Setting
from cemlib.labelling.sharing import SECURE_BITS, DealerKey, Keys, generate, split
from cemlib.records.seal import write_sealed
from cemlib.study.job import Job

REPEATS = 5


@dataclass(frozen=True)
class CostRow:
    """Hold what labelling one image costs, all participants together.

    Attributes:
        key_bits: length of n.
        packing: see `Setting`.
        blinding: see `cemlib.labelling.paillier`.
        precomputed: whether blindings were made before the votes were known.
        offline_seconds: CPU seconds of making them so; 0 where they were not.
        encrypt_seconds: CPU seconds of the votes, with the blindings unless precomputed.
        decrypt_seconds: CPU seconds of products, partial decryptions, and reading the tallies.
        bytes: to the aggregator.
        ciphertexts: of one participant.
    """

    key_bits: int
    packing: Packing
    blinding: Blinding
    precomputed: bool
    offline_seconds: float
    encrypt_seconds: float
    decrypt_seconds: float
    bytes: float
    ciphertexts: float


def seconds_of(work: Callable[[], Any]) -> float:
    """Return the CPU seconds of this process that the work takes."""
    start = time.process_time()
    work()
    return time.process_time() - start


def measure(
    key_bits: Sequence[int], participants: int = 15, classes: int = 10, images: int = 18
) -> list[CostRow]:
    """Return the cost of an image for every key length, packing, blinding, precomputed or not.

    Args:
        key_bits: lengths of n.
        participants: N.
        classes: k.
        images: labelled in one round where packing goes across images, one otherwise.
    """
    rows: list[CostRow] = []
    for bits in key_bits:
        testing = bits < SECURE_BITS
        setting = Setting(participants, classes, 1.0, bits, insecure_for_testing=testing)
        keys = split(generate(bits, insecure_for_testing=testing), participants)
        keys.public.table  # noqa: B018 - made once for a key: `measure_setup` has its cost
        for packing, blinding in product(get_args(Packing), get_args(Blinding)):
            own = replace(setting, packing=packing, blinding=blinding)
            rows += _rows(own, keys, images if packing == "images" else 1)
    return rows


def _rows(setting: Setting, keys: Keys, images: int) -> list[CostRow]:
    """Carry out one round; return its cost with blindings made beforehand, and without."""
    round_ = Round.start(keys.public, setting, images)
    votes: NDArray[np.int64] = np.arange(images) % setting.classes
    participants = [Participant(round_, share, votes) for share in keys.shares]
    sent: list[bytes] = []
    parts: list[bytes] = []
    prepare = sum(seconds_of(party.prepare) for party in participants)
    vote = seconds_of(lambda: sent.extend(party.vote() for party in participants))
    decrypt = seconds_of(lambda: parts.extend(open_sums(Aggregator(round_), participants, sent)))
    size = sum(map(len, sent + parts)) / images

    def row(precomputed: bool, offline: float, online: float) -> CostRow:
        return CostRow(
            key_bits=setting.key_bits,
            packing=setting.packing,
            blinding=setting.blinding,
            precomputed=precomputed,
            offline_seconds=offline / images,
            encrypt_seconds=online / images,
            decrypt_seconds=decrypt / images,
            bytes=size,
            ciphertexts=round_.ciphertexts / images,
        )

    return [row(False, 0.0, prepare + vote), row(True, prepare, vote)]


def measure_setup(key_bits: Sequence[int], participants: int = 15) -> list[dict[str, Any]]:
    """Return what is paid once for a key of each length, in CPU seconds.

    Returns:
        Rows with `key_bits`; `deal_seconds` of primes and shares; `table_seconds` of a
        participant's table for `short` blindings; and those of one x^n mod n^2: `power_seconds` as
        a participant computes it, `power_crt_seconds` with p and q, `power_python_seconds` without
        gmpy2.
    """
    return [_setup_row(bits, participants) for bits in key_bits]


def _setup_row(bits: int, participants: int) -> dict[str, Any]:
    dealers: list[DealerKey] = []
    publics: list[PublicKey] = []

    def dealing() -> None:
        dealers.append(generate(bits, insecure_for_testing=bits < SECURE_BITS))
        publics.append(split(dealers[0], participants).public)

    dealt = seconds_of(dealing)
    dealer, key = dealers[0], publics[0]
    return {
        "key_bits": bits,
        "deal_seconds": dealt,
        "table_seconds": seconds_of(lambda: key.table),
        "power_seconds": _mean_of(lambda: powmod(key.base, key.n, key.n_squared)),
        "power_crt_seconds": _mean_of(lambda: dealer.nth_power(key.base)),
        "power_python_seconds": _mean_of(lambda: pow(key.base, key.n, key.n_squared)),
    }


def _mean_of(work: Callable[[], Any]) -> float:
    return sum(seconds_of(work) for _ in range(REPEATS)) / REPEATS


def measure_peer(
    key_bits: Sequence[int], participants: int = 15, classes: int = 10
) -> list[dict[str, Any]]:
    """Return CPU seconds of phe's scalar encryption of an image; empty without phe.

    phe is GPL and no dependency; whoever has it sees the ratio. REPEATS counters are timed, and
    participants * classes of them make an image.
    """
    try:
        from phe import PaillierPublicKey
    except ImportError:
        return []

    def image_seconds(bits: int) -> float:
        key = PaillierPublicKey(generate(bits, insecure_for_testing=bits < SECURE_BITS).n)
        return _mean_of(lambda: key.encrypt(1)) * participants * classes

    return [{"key_bits": bits, "encrypt_seconds": image_seconds(bits)} for bits in key_bits]


def measured(
    key_bits: Sequence[int], participants: int = 15, classes: int = 10, images: int = 18
) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of `measure`, `measure_setup` and `measure_peer` as plain dicts."""
    return {
        "rounds": [asdict(row) for row in measure(key_bits, participants, classes, images)],
        "setup": measure_setup(key_bits, participants),
        "peer": measure_peer(key_bits, participants, classes),
    }


def run(job: Job[LabellingStudy]) -> list[Path]:
    """Time the cryptography of a study, and write the record; return its path."""
    start, study = time.perf_counter(), job.plan.study
    record = {
        "kind": "cost",
        **measured(study.cost.key_bits, study.participants, images=study.cost.images),
        "command": job.command,
        "wall_seconds": time.perf_counter() - start,
        **job.record(None),
    }
    write_sealed(job.plan.layout.cost, record)
    return [job.plan.layout.cost]
