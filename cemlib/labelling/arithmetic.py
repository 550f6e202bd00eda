"""Compute with large integers by gmpy2, or by Python's own arithmetic where it is not installed.

Both give the same numbers; gmpy2 is about five to ten times as fast at 2,048 bits. Arguments and
results are plain integers.
"""

import math
import secrets
from collections.abc import Iterable
from typing import Any

try:
    import gmpy2
except ImportError:
    gmpy2 = None

# Rounds of Miller-Rabin: a composite passes one with probability at most 1/4 (Rabin 1980).
ROUNDS = 40
SMALL_PRIMES = tuple(
    p for p in range(3, 1000, 2) if all(p % q for q in range(3, math.isqrt(p) + 1, 2))
)


def powmod(base: int, exponent: int, modulus: int) -> int:
    """Return base ** exponent mod modulus, for an exponent that need not stay secret for long."""
    if gmpy2 is None:
        return pow(base, exponent, modulus)
    return int(gmpy2.powmod(base, exponent, modulus))


def powmod_secret(base: int, exponent: int, modulus: int) -> int:
    """Return base ** exponent mod an odd modulus, for an exponent that stays secret for long.

    GMP's `mpz_powm_sec` takes the same time and touches the same memory whatever the exponent's
    bits are; Python's own `pow`, used without gmpy2, does not promise that.
    """
    if gmpy2 is None or exponent == 0:
        return pow(base, exponent, modulus)
    return int(gmpy2.powmod_sec(base, exponent, modulus))


def product(factors: Iterable[int], modulus: int) -> int:
    """Return the product of the factors mod modulus."""
    result = _large(1)
    for factor in factors:
        result = result * factor % modulus
    return int(result)


def _large(value: int) -> Any:
    """Return the value as gmpy2's integer, whose products are fast, where it is installed."""
    return value if gmpy2 is None else gmpy2.mpz(value)


def random_prime(bits: int, residue: int, modulus: int) -> int:
    """Return a probable prime of exactly `bits` bits that is congruent to residue mod modulus.

    Its top two bits are set, so that the product of two such primes has exactly 2 * bits bits.
    Candidates are independent draws, not steps from one start: all primes are equally likely.
    """
    while True:
        candidate = secrets.randbits(bits) | 3 << bits - 2
        candidate += (residue - candidate) % modulus
        if candidate.bit_length() == bits and is_probable_prime(candidate):
            return candidate


def is_probable_prime(number: int) -> bool:
    """Return whether the number passes trial division and `ROUNDS` rounds of Miller-Rabin.

    A composite passes with probability at most 4 ** -40; gmpy2 tests by Baillie-PSW first.
    """
    if number < 3 or number % 2 == 0:
        return number == 2
    if any(number % p == 0 for p in SMALL_PRIMES):
        return number in SMALL_PRIMES
    if gmpy2 is not None:
        return bool(gmpy2.is_prime(number, ROUNDS))
    return all(_passes(number, 2 + secrets.randbelow(number - 3)) for _ in range(ROUNDS))


def _passes(number: int, base: int) -> bool:
    """Return whether an odd number > 4 passes a round of Miller-Rabin, base in [2, number - 2]."""
    twos = (number - 1 & 1 - number).bit_length() - 1
    power = pow(base, number - 1 >> twos, number)
    if power in (1, number - 1):
        return True
    for _ in range(twos - 1):
        power = power * power % number
        if power == number - 1:
            return True
    return False


class FixedBase:
    """Compute powers of one base from a table: b / window products for an exponent of b bits.

    Row i of the table holds base ** (j * 2 ** (window * i)) for every j < 2 ** window (Brickell,
    Gordon, McCurley and Wilson, EUROCRYPT 1992).
    """

    def __init__(self, base: int, bits: int, modulus: int, window: int = 6) -> None:
        self._modulus, self._window, self._bits = modulus, window, bits
        self._rows = []
        power = _large(base)
        for _ in range(-(-bits // window)):
            row = [_large(1)]
            for _ in range((1 << window) - 1):
                row.append(row[-1] * power % modulus)
            self._rows.append(row)
            power = row[-1] * power % modulus

    def power(self, exponent: int) -> int:
        """Return base ** exponent mod modulus; raise ValueError if the table is too short."""
        if exponent < 0 or exponent.bit_length() > self._bits:
            raise ValueError(f"the table is for exponents of at most {self._bits} bits")
        result, digit = _large(1), (1 << self._window) - 1
        for i, row in enumerate(self._rows):
            result = result * row[exponent >> i * self._window & digit] % self._modulus
        return int(result)
