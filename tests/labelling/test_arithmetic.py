"""Arithmetic with gmpy2 and without: the same numbers as Python's own."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cemlib.labelling import arithmetic
from cemlib.labelling.arithmetic import FixedBase, is_probable_prime, random_prime

BACKENDS = ["python"] if arithmetic.gmpy2 is None else ["python", "gmpy2"]


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "python":
        monkeypatch.setattr(arithmetic, "gmpy2", None)


odd = st.integers(1, 2**300).map(lambda x: 2 * x + 1)


@given(base=st.integers(0, 2**600), exponent=st.integers(0, 2**200), modulus=odd)
def test_powers_are_pythons(base: int, exponent: int, modulus: int) -> None:
    for backend in (arithmetic.gmpy2, None):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(arithmetic, "gmpy2", backend)
            for power in (arithmetic.powmod, arithmetic.powmod_secret):
                assert power(base, exponent, modulus) == pow(base, exponent, modulus)


@given(
    base=st.integers(1, 2**200),
    exponent=st.integers(0, 2**100 - 1),
    modulus=odd,
    window=st.integers(1, 7),
)
def test_a_table_gives_the_powers_of_its_base(
    base: int, exponent: int, modulus: int, window: int
) -> None:
    table = FixedBase(base, 100, modulus, window)
    assert table.power(exponent) % modulus == pow(base, exponent, modulus)


@pytest.mark.parametrize("exponent", [-1, 2**100])
@pytest.mark.usefixtures("backend")
def test_a_table_refuses_exponents_it_does_not_hold(exponent: int) -> None:
    with pytest.raises(ValueError, match="at most 100 bits"):
        FixedBase(3, 100, 1001).power(exponent)


@pytest.mark.usefixtures("backend")
def test_primes_are_those_of_the_sieve() -> None:
    sieve = [n for n in range(5000) if n > 1 and all(n % d for d in range(2, math.isqrt(n) + 1))]
    assert [n for n in range(5000) if is_probable_prime(n)] == sieve


# Carmichael numbers with no factor below 1000, from Chernick's (6k+1)(12k+1)(18k+1), and the least
# strong pseudoprime to the bases 2, 3, 5 and 7 (Pomerance, Selfridge and Wagstaff 1980).
CARMICHAEL = [
    (6 * k + 1) * (12 * k + 1) * (18 * k + 1)
    for k in range(170, 3000)
    if all(
        all(p % d for d in range(2, math.isqrt(p) + 1)) for p in (6 * k + 1, 12 * k + 1, 18 * k + 1)
    )
]


@pytest.mark.usefixtures("backend")
def test_composites_that_fool_weaker_tests_are_found_out() -> None:
    assert CARMICHAEL
    assert not any(is_probable_prime(n) for n in [*CARMICHAEL, 3215031751])
    assert is_probable_prime(2**521 - 1)
    assert all(pow(2, n - 1, n) == 1 for n in CARMICHAEL)


@pytest.mark.usefixtures("backend")
def test_random_primes_are_long_enough_for_their_product() -> None:
    primes = [random_prime(64, 3, 4) for _ in range(20)]
    assert len(set(primes)) == 20
    assert all(p % 4 == 3 and p >> 62 == 3 and p.bit_length() == 64 for p in primes)
    assert all(pow(a, p - 1, p) == 1 for p in primes for a in (2, 3, 5, 7, 11))
