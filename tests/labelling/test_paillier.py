"""Paillier against a textbook example, its algebra, and decryption straight from the paper."""

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cemlib.labelling import arithmetic
from cemlib.labelling.errors import LabellingError, MessageError
from cemlib.labelling.paillier import (
    PublicKey,
    add,
    check_ciphertext,
    draw_blinding,
    encrypt,
    scale,
)
from cemlib.labelling.sharing import DealerKey, Keys, combine, generate, partial_decryption, split


def decrypt_by_the_paper(c: int, p: int, q: int, g: int | None = None) -> int:
    """Paillier 1999, section 4: L(c^lambda mod n^2) / L(g^lambda mod n^2) mod n."""
    n, lam = p * q, math.lcm(p - 1, q - 1)
    g = n + 1 if g is None else g
    top, bottom = ((pow(x, lam, n * n) - 1) // n for x in (c, g))
    return top * pow(bottom, -1, n) % n


def open_jointly(keys: Keys, ciphertext: int) -> int:
    of = len(keys.shares)
    parts = {s.index: partial_decryption(keys.public, s, ciphertext) for s in keys.shares}
    return combine(keys.public, parts, of)


@pytest.fixture(scope="module")
def dealer() -> DealerKey:
    return generate(256, insecure_for_testing=True)


@pytest.fixture(scope="module")
def keys(dealer: DealerKey) -> Keys:
    return split(dealer, 3)


def test_the_example_of_the_textbooks() -> None:
    # n = 77, n^2 = 5929, lambda = 30, g = 5652, mu = L(5652^30)^-1 = 74; Enc(42; r = 23) = 4624.
    assert pow(5652, 42, 5929) * pow(23, 77, 5929) % 5929 == 4624
    assert decrypt_by_the_paper(4624, 7, 11, g=5652) == 42
    # With g = 78 a ciphertext opens to its class: classes divide as logarithms do (lemma 2).
    toy = split(DealerKey(7, 11), 3)
    assert open_jointly(toy, 4624) * pow(open_jointly(toy, 5652), -1, 77) % 77 == 42


def test_an_encryption_worked_out_by_hand() -> None:
    # m = 5, r = 2: (1 + 5 * 77) * 2^77 = 386 * 2^77 mod 5929. 2^13 = 8192 = 2263; 2^26 = 2263^2 =
    # 5121169 = 4442; 2^52 = 4442^2 = 19731364 = 5581; 2^77 = 2^52 * 2^13 * 2^12 = 5581 * 2263 *
    # 4096 = 1033 * 4096 = 3791; and 386 * 3791 = 1463326 = 4792.
    key = PublicKey(77, 4)
    assert encrypt(key, 5, blinding=3791) == 4792
    assert pow(2, 77, 5929) == 3791
    assert decrypt_by_the_paper(4792, 7, 11) == 5
    assert open_jointly(split(DealerKey(7, 11), 2), 4792) == 5


numbers = st.integers(0, 2**254)


@settings(max_examples=25)
@given(a=numbers, b=numbers, factor=st.integers(-(2**60), 2**60))
def test_the_algebra_holds_with_wrap_around(
    dealer: DealerKey, keys: Keys, a: int, b: int, factor: int
) -> None:
    key, n = keys.public, keys.public.n
    x, y = encrypt(key, a), encrypt(key, b)
    for ciphertext, plaintext in (
        (x, a),
        (add(key, [x, y]), a + b),
        (add(key, [x] * 7), 7 * a),
        (scale(key, x, factor), factor * a),
    ):
        assert decrypt_by_the_paper(ciphertext, dealer.p, dealer.q) == plaintext % n
        assert open_jointly(keys, ciphertext) == plaintext % n


@pytest.mark.parametrize("plaintext", [0, 1, -1])
def test_the_ends_of_the_range(dealer: DealerKey, keys: Keys, plaintext: int) -> None:
    m = plaintext % keys.public.n
    ciphertext = encrypt(keys.public, m)
    assert decrypt_by_the_paper(ciphertext, dealer.p, dealer.q) == m
    assert open_jointly(keys, ciphertext) == m


@pytest.mark.parametrize("plaintext", [-1, "n"])
def test_plaintexts_out_of_range_are_refused(keys: Keys, plaintext: int | str) -> None:
    with pytest.raises(LabellingError, match="plaintext: must be in"):
        encrypt(keys.public, keys.public.n if plaintext == "n" else -1)


@pytest.mark.parametrize("operation", ["add", "scale", "partial", "combine"])
@pytest.mark.parametrize("bad", ["zero", "negative", "n^2", "n", "p"])
def test_what_is_no_ciphertext_is_refused(
    dealer: DealerKey, keys: Keys, bad: str, operation: str
) -> None:
    key = keys.public
    c = {"zero": 0, "negative": -5, "n^2": key.n_squared, "n": key.n, "p": dealer.p}[bad]
    good = encrypt(key, 1)
    with pytest.raises(MessageError, match=r"\[1, n\^2\)|shares a factor"):
        {
            "add": lambda: add(key, [good, c]),
            "scale": lambda: scale(key, c, 2),
            "partial": lambda: partial_decryption(key, keys.shares[0], c),
            "combine": lambda: combine(key, {0: good, 1: c, 2: good}, 3),
        }[operation]()


@pytest.mark.parametrize("kind", ["full", "short"])
def test_blindings_are_fresh_n_th_powers(dealer: DealerKey, keys: Keys, kind: str) -> None:
    drawn = {draw_blinding(keys.public, kind) for _ in range(50)}  # type: ignore[arg-type]
    assert len(drawn) == 50
    assert {pow(b, dealer.order, keys.public.n_squared) for b in drawn} == {1}
    for blinding in drawn:
        check_ciphertext(keys.public, blinding)


def test_equal_plaintexts_have_unlike_ciphertexts(keys: Keys) -> None:
    first = encrypt(keys.public, 7)
    assert first != encrypt(keys.public, 7)


def test_the_base_generates_no_small_group(dealer: DealerKey, keys: Keys) -> None:
    # h_n has an order that divides lambda; for a random one it is lambda up to small factors.
    base, modulus = keys.public.base, keys.public.n_squared
    assert all(pow(base, dealer.order // f, modulus) != 1 for f in (dealer.p - 1, dealer.q - 1))


def test_without_gmpy2_all_is_the_same(monkeypatch: pytest.MonkeyPatch, dealer: DealerKey) -> None:
    keys = split(dealer, 2)
    with_gmpy2 = encrypt(keys.public, 12345, blinding=keys.public.base)
    monkeypatch.setattr(arithmetic, "gmpy2", None)
    public = replace(keys.public)  # without the table that was made
    assert encrypt(public, 12345, blinding=public.base) == with_gmpy2
    assert open_jointly(keys, with_gmpy2) == 12345
    assert open_jointly(keys, encrypt(public, 678)) == 678
    assert open_jointly(split(generate(256, insecure_for_testing=True), 2), 1) == 0


@pytest.mark.parametrize(("n", "base"), [(16, 3), (14, 3), (77, 0), (77, 7), (77, 5929)])
def test_a_spoilt_public_key_is_refused(n: int, base: int) -> None:
    with pytest.raises(LabellingError, match="public key"):
        PublicKey(n, base)


def test_the_dealers_chinese_remainders(dealer: DealerKey) -> None:
    for x in (2, 3, dealer.n - 1, 2**200 + 7):
        assert dealer.nth_power(x) == pow(x, dealer.n, dealer.n**2)
