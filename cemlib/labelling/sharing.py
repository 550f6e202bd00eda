"""Deal N shares of the decryption exponent, and decrypt jointly.

The dealer draws p and q, takes the d in Z_(n lambda) with d = 0 mod lambda and d = 1 mod n, gives
participant i the share s_i with s_1 + ... + s_N = d mod n lambda, and forgets p, q, lambda and d.
Every unit u of Z_(n^2) has u^(n lambda) = 1, so the partial decryptions c^(s_i) multiply to

    c^d = (1 + n)^(m d) r^(n d) = 1 + m n   mod n^2,      n d = 0 mod n lambda, d = 1 mod n,

from which m is read (Paillier 1999; the exponent d of Damgard and Jurik 2001).

N - 1 shares reveal nothing about d. The dealer draws s_1 ... s_(N-1) uniformly and independently
from Z_(n lambda) and sets s_N = d - s_1 - ... - s_(N-1). For any d, the map from these draws to any
N - 1 shares is a bijection of Z_(n lambda)^(N-1), so the shares are uniform and independent of d.
Of lambda they can show only its size: lambda = (n + 1 - p - q) / 2 lies within (p + q) / 2 of n /
2, so a share is within statistical distance (p + q) / n < 2^(2 - bits/2) of a uniform number below
n floor(n / 2), which anybody can draw. A partial decryption reveals nothing beyond m: given m and
the other N - 1 shares it is (1 + m n) / prod c^(s_j), which anybody can compute.
"""

import math
import re
import secrets
from dataclasses import dataclass, field
from functools import cached_property

import gmpy2

from cemlib.labelling.errors import LabellingError, ShareError
from cemlib.labelling.paillier import PublicKey, blinds, check_ciphertext, product

# GMP 6.2 and later make a Baillie-PSW test and `ROUNDS` - 24 rounds of Miller-Rabin, each of which
# a composite passes with probability at most 1/4 (Rabin 1980).
ROUNDS = 40


@dataclass(frozen=True)
class KeyShare:
    """One participant's share of the decryption exponent; its repr never shows a secret.

    All participants share `mac_key`, 64 hexadecimal digits, which the aggregator must not have.
    """

    index: int
    of: int
    value: int = field(repr=False)
    fingerprint: str
    mac_key: str = field(repr=False)

    def __post_init__(self) -> None:
        if not re.fullmatch("[0-9a-f]{64}", self.mac_key):
            raise ShareError(f"share {self.index}: mac_key must be 64 hexadecimal digits")


@dataclass(frozen=True)
class Keys:
    """The public key, which everybody gets, and the shares, of which participant i gets i."""

    public: PublicKey
    shares: tuple[KeyShare, ...]


@dataclass(frozen=True)
class DealerKey:
    """The dealer's primes p and q, both = 3 mod 4, with gcd(p-1, q-1) = 2."""

    p: int = field(repr=False)
    q: int = field(repr=False)

    def __post_init__(self) -> None:
        p, q = self.p, self.q
        suit = p != q and p % 4 == q % 4 == 3 and math.gcd(p - 1, q - 1) == 2
        if not suit or math.gcd(p * q, (p - 1) * (q - 1)) != 1:
            raise LabellingError("dealer: p and q must differ, = 3 mod 4, with gcd(p-1, q-1) = 2")

    @property
    def n(self) -> int:
        """Return the modulus."""
        return self.p * self.q

    @cached_property
    def order(self) -> int:
        """Return lambda = lcm(p - 1, q - 1)."""
        return math.lcm(self.p - 1, self.q - 1)

    def exponent(self) -> int:
        """Return d in Z_(n lambda) with d = 0 mod lambda and d = 1 mod n."""
        return self.order * pow(self.order, -1, self.n)

    def public(self) -> PublicKey:
        """Return the public key, with a base (-x^2)^n for a fresh x."""
        while True:
            x = 2 + secrets.randbelow(self.n - 3)
            base = int(gmpy2.powmod(-x * x, self.n, self.n**2))
            if math.gcd(x, self.n) == 1 and blinds(self.n, base):
                return PublicKey(self.n, base)


def generate(bits: int) -> DealerKey:
    """Return fresh primes of bits / 2 bits each, whose product has exactly `bits` bits."""
    while True:
        p, q = random_prime(bits // 2), random_prime(bits // 2)
        if p != q and math.gcd(p - 1, q - 1) == 2:
            return DealerKey(p, q)


def random_prime(bits: int) -> int:
    """Return a probable prime of exactly `bits` bits that is 3 mod 4, its top two bits set.

    Candidates are drawn independently, not by counting up: all primes are equally likely.
    """
    while True:
        candidate = secrets.randbits(bits) | 3 << bits - 2 | 3
        if gmpy2.is_prime(candidate, ROUNDS):
            return candidate


def split(key: DealerKey, participants: int) -> Keys:
    """Return the public key, and for each participant a share of d with the shared MAC key."""
    if participants < 2:
        raise LabellingError(f"participants: {participants}; a shared key needs at least two")
    public, modulus = key.public(), key.n * key.order
    values = [secrets.randbelow(modulus) for _ in range(participants - 1)]
    values.append((key.exponent() - sum(values)) % modulus)
    common = public.fingerprint, secrets.token_hex(32)
    return Keys(public, tuple(KeyShare(i, participants, s, *common) for i, s in enumerate(values)))


def partial_decryption(key: PublicKey, share: KeyShare, ciphertext: int) -> int:
    """Return c^(s_i) mod n^2, participant i's part of the decryption of c, in constant time."""
    check_ciphertext(key, ciphertext)
    if share.value == 0:  # not accepted by GMP, and only possible with toy keys
        return 1
    return int(gmpy2.powmod_sec(ciphertext, share.value, key.n_squared))


def combine(key: PublicKey, partials: dict[int, int], of: int) -> int:
    """Return the plaintext from the partial decryptions of all `of` participants, by index.

    A part that was multiplied by (1 + n)^k is not detected, and adds k to the plaintext.

    Raises:
        ShareError: if parts are missing, or do not belong together: their product is not 1 + m n
            (with a wrong share, it is with probability about 2 / n).
    """
    missing = sorted(set(range(of)) - set(partials))
    if missing or len(partials) != of:
        raise ShareError(
            f"decryption: needs all {of} shares; missing {missing}, got {len(partials)}"
        )
    for index, value in partials.items():
        check_ciphertext(key, value, f"partial decryption of participant {index}")
    opened = product(partials.values(), key.n_squared)
    if opened % key.n != 1:
        raise ShareError("decryption: the parts do not fit: a wrong share, key or ciphertext")
    return (opened - 1) // key.n
