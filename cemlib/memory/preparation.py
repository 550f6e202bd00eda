"""The preparation, rehearsed: its images are bytes, and it computes nothing large with them."""

import torch

from cemlib.config.data import DataConfig
from cemlib.data.digits import enlarge
from cemlib.memory.facts import Facts
from cemlib.memory.recorder import Recorder, empty

# Python's own: an array's object for every image read, a checksum's for every one compared.
ARRAY, DIGEST = 200, 130


def preparation(config: DataConfig, facts: Facts) -> int:
    """Bytes of reading, dividing, comparing and writing a study's images.

    Files are read one by one in threads; what they took there is not used again.
    """
    counts, shape = facts.counts, facts.image_shape
    recorder = Recorder()
    with recorder:
        if config.source == "digits":
            enlarge(empty(facts.read, 8, 8, dtype=torch.float64), config.image_size)
        stacked = empty(facts.read, *shape, dtype=torch.uint8)
        parts = [empty(count, *shape, dtype=torch.uint8) for count in counts.values()]
        compared = torch.cat(parts[:2])
        checksums = empty(len(compared) * DIGEST, dtype=torch.uint8)
        del compared, checksums, stacked
        content = [part.clone() for part in parts]
        torch.cat(content)
    one_by_one = facts.read * (facts.image_bytes + ARRAY) if config.source != "digits" else 0
    return recorder.heap.top + one_by_one
