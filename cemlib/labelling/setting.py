"""The public parameters of a round: participants, noise, key, masks, packing."""

import math
from dataclasses import dataclass
from typing import Literal, get_args

from cemlib.config.labelling import MAXIMUM_BITS, MINIMUM_BITS, SECURE_BITS
from cemlib.labelling.errors import LabellingError
from cemlib.labelling.paillier import Blinding

Packing = Literal["none", "images"]
# Masks and noise are multiples of 2^-12 of a vote: 64-bit integers hold every sum, and noise of any
# useful size spans many steps.
SCALE = 1 << 12  # steps in a vote
LEAST_STEPS = 8  # smallest standard deviation of a participant's noise, in steps
WIDEST = 62  # largest width of a counter in bits


@dataclass(frozen=True)
class Setting:
    """The public parameters of a round."""

    participants: int  # their number N, at least 2
    classes: int  # their number k, the length of a vote
    # Standard deviation sigma of the total noise on a tally; each participant adds
    # N(0, sigma^2 / N). 0 gives exact tallies and no differential privacy.
    noise_std: float
    key_bits: int = 2048  # length of Paillier's modulus n, 256 to 3072
    mask_bits: int = 40  # the b of masks, which are uniform in [0, 2^b) votes, in steps of 2^-12
    packing: Packing = "images"  # `none`: one counter in a plaintext; `images`: as many as fit
    blinding: Blinding = "short"  # how ciphertexts are blinded, see `cemlib.labelling.paillier`
    insecure_for_testing: bool = False  # whether keys below 2,048 bits are allowed

    def __post_init__(self) -> None:
        if not MINIMUM_BITS <= self.key_bits <= MAXIMUM_BITS or self.key_bits % 2:
            raise LabellingError(
                f"key_bits: {self.key_bits} must be even, from {MINIMUM_BITS} to {MAXIMUM_BITS}"
            )
        if self.key_bits < SECURE_BITS and not self.insecure_for_testing:
            raise LabellingError(
                f"key_bits: {self.key_bits} can be factored or soon will be; take {SECURE_BITS} or"
                " more, or set insecure_for_testing: true where no real vote is at stake"
            )
        for name, known in (("packing", get_args(Packing)), ("blinding", get_args(Blinding))):
            if getattr(self, name) not in known:
                raise LabellingError(f"{name}: {getattr(self, name)!r} is not one of {known}")
        for name, least in (("participants", 2), ("classes", 2), ("mask_bits", 1)):
            if getattr(self, name) < least:
                raise LabellingError(f"{name}: {getattr(self, name)} must be at least {least}")
        if self.slot_bits > WIDEST:
            raise LabellingError(
                f"mask_bits: {self.mask_bits} with {self.participants} participants makes counters "
                f"of {self.slot_bits} bits; at most {WIDEST} fit: lower mask_bits"
            )
        if not 0 <= self.noise_std < 2**self.mask_bits / 2**10:
            raise LabellingError(f"noise_std: {self.noise_std} must be in [0, 2^(mask_bits - 10))")
        if 0 < self.share_std < LEAST_STEPS / SCALE:
            raise LabellingError(
                f"noise_std: {self.noise_std} is finer than the grid of 1/{SCALE} of a vote"
            )

    @property
    def share_std(self) -> float:
        """Return the standard deviation of a participant's noise, sigma / sqrt(N), in votes."""
        return self.noise_std / math.sqrt(self.participants)

    @property
    def largest(self) -> int:
        """Return the largest sum in a counter, in steps: that of N votes and N largest masks."""
        return self.participants * (SCALE + (SCALE << self.mask_bits) - 1)

    @property
    def slot_bits(self) -> int:
        """Return the width of a counter in bits, such that no sum carries into the next one."""
        return self.largest.bit_length()

    @property
    def slots(self) -> int:
        """Return the number of counters in a plaintext, which stays below 2^(bits - 1) <= n."""
        return 1 if self.packing == "none" else (self.key_bits - 1) // self.slot_bits
