"""Encrypt and add in Paillier's cryptosystem: the public part, which every party may use.

With n = pq, a ciphertext of m is (1 + n)^m r^n mod n^2 for a random r, and (1 + n)^m = 1 + mn, so
that only the blinding r^n costs an exponentiation (Paillier, EUROCRYPT 1999; g = 1 + n after
Damgard and Jurik, PKC 2001). Products of ciphertexts encrypt sums mod n. Hiding rests on the
decisional composite residuosity assumption (DCR): without p and q, nobody can tell n-th powers mod
n^2 from other units. The blinding is drawn in one of two ways:

* `full`: r^n for r uniform in the units of Z_n. It rests on DCR alone.
* `short`: h_n^a for the dealer's h_n = (-x^2)^n mod n^2 and a uniform in [0, 2^(bits/2)), by a
  table of powers of h_n (Damgard, Jurik and Nielsen, Int. J. Inf. Security 9, 2010). It needs p = q
  = 3 mod 4 and gcd(p-1, q-1) = 2, so that the units of Jacobi symbol 1 are a cyclic group, of
  which -x^2 generates all or a subgroup of small index. That an exponent of half the length is
  indistinguishable from a full one rests on the hardness of factoring n (Goldreich and Rosen,
  J. Cryptology 16, 2003), which DCR implies.
"""

import hashlib
import math
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import gmpy2

from cemlib.labelling.errors import LabellingError, MessageError

Blinding = Literal["full", "short"]


class FixedBase:
    """Powers of a fixed base from a table: b / window products for an exponent of b bits.

    Row i of the table holds base ** (j * 2 ** (window * i)) for every j < 2 ** window (Brickell,
    Gordon, McCurley and Wilson, EUROCRYPT 1992).
    """

    def __init__(self, base: int, bits: int, modulus: int, window: int = 6) -> None:
        self._modulus, self._window, self._bits = modulus, window, bits
        self._rows = []
        power = gmpy2.mpz(base)
        for _ in range(-(-bits // window)):
            row = [gmpy2.mpz(1)]
            for _ in range((1 << window) - 1):
                row.append(row[-1] * power % modulus)
            self._rows.append(row)
            power = row[-1] * power % modulus

    def power(self, exponent: int) -> int:
        """Return base ** exponent mod modulus; raise ValueError if the table is too short."""
        if exponent < 0 or exponent.bit_length() > self._bits:
            raise ValueError(f"the table is for exponents of at most {self._bits} bits")
        result, digit = gmpy2.mpz(1), (1 << self._window) - 1
        for i, row in enumerate(self._rows):
            result = result * row[exponent >> i * self._window & digit] % self._modulus
        return int(result)


@dataclass(frozen=True)
class PublicKey:
    """The public key."""

    n: int  # the modulus, a product of two primes of equal length
    base: int  # h_n, the n-th power from which `short` blindings are drawn

    def __post_init__(self) -> None:
        if self.n < 15 or self.n % 2 == 0:
            raise LabellingError(f"public key: n = {self.n} is not a product of two odd primes")
        check_ciphertext(self, self.base, "public key's base")
        if not blinds(self.n, self.base):
            raise LabellingError("public key: powers of its base blind nothing; deal another key")

    @cached_property
    def n_squared(self) -> int:
        """Return the modulus of the ciphertexts."""
        return self.n * self.n

    @property
    def bits(self) -> int:
        """Return the key's length in bits."""
        return self.n.bit_length()

    @property
    def ciphertext_bytes(self) -> int:
        """Return the length of an encoded ciphertext in bytes."""
        return (self.n_squared.bit_length() + 7) // 8

    @cached_property
    def fingerprint(self) -> str:
        """Return the SHA-256 of the key, by which shares and rounds refer to it."""
        return hashlib.sha256(f"paillier {self.n:x} {self.base:x}".encode()).hexdigest()

    @cached_property
    def table(self) -> FixedBase:
        """Return the table of powers of `base` for `short` blindings: megabytes at 2,048 bits."""
        return FixedBase(self.base, (self.bits + 1) // 2, self.n_squared)


def blinds(n: int, base: int) -> bool:
    """Return whether powers of a base can hide a plaintext; powers of +-(1 + k n) cannot."""
    return base % n not in (1, n - 1)


def check_ciphertext(key: PublicKey, ciphertext: int, what: str = "ciphertext") -> None:
    """Raise MessageError unless the number is a unit mod n^2 in [1, n^2)."""
    if not 0 < ciphertext < key.n_squared:
        raise MessageError(f"{what}: not in [1, n^2)")
    if math.gcd(ciphertext, key.n) != 1:
        raise MessageError(f"{what}: shares a factor with n, so it is not a ciphertext")


def draw_blinding(key: PublicKey, kind: Blinding = "short") -> int:
    """Return a fresh random n-th power mod n^2; it can be drawn before the plaintext is known."""
    if kind == "short":
        return key.table.power(secrets.randbits((key.bits + 1) // 2))
    while True:
        r = 1 + secrets.randbelow(key.n - 1)
        if math.gcd(r, key.n) == 1:
            return int(gmpy2.powmod(r, key.n, key.n_squared))


def encrypt(key: PublicKey, plaintext: int, blinding: int | None = None) -> int:
    """Return a ciphertext of a plaintext in [0, n); no blinding may be used for a second one."""
    if not 0 <= plaintext < key.n:
        raise LabellingError(f"plaintext: must be in [0, n), n of {key.bits} bits")
    blinding = draw_blinding(key) if blinding is None else blinding
    return product((1 + plaintext * key.n, blinding), key.n_squared)


def product(factors: Iterable[int], modulus: int) -> int:
    """Return the product of the factors mod modulus."""
    result = gmpy2.mpz(1)
    for factor in factors:
        result = result * factor % modulus
    return int(result)
