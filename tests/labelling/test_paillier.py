"""Paillier's cryptosystem and key shares: textbook examples, the algebra, and missing shares."""

import math
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from cemlib.labelling import paillier, sharing
from cemlib.labelling.errors import LabellingError, MessageError, ShareError


def decrypt_by_the_paper(c: int, p: int, q: int, g: int | None = None) -> int:
    """Paillier 1999, section 4: L(c^lambda mod n^2) / L(g^lambda mod n^2) mod n."""
    n, lam = p * q, math.lcm(p - 1, q - 1)
    g = n + 1 if g is None else g
    top, bottom = ((pow(x, lam, n * n) - 1) // n for x in (c, g))
    return top * pow(bottom, -1, n) % n


def parts_of(keys: sharing.Keys, ciphertext: int) -> dict[int, int]:
    return {s.index: sharing.partial_decryption(keys.public, s, ciphertext) for s in keys.shares}


def open_jointly(keys: sharing.Keys, ciphertext: int) -> int:
    return sharing.combine(keys.public, parts_of(keys, ciphertext), len(keys.shares))


@pytest.fixture(scope="module")
def dealer() -> sharing.DealerKey:
    return sharing.generate(256)


@pytest.fixture(scope="module")
def keys(dealer: sharing.DealerKey) -> sharing.Keys:
    return sharing.split(dealer, 4)


def test_the_example_of_the_textbooks() -> None:
    # n = 77, n^2 = 5929, lambda = 30, g = 5652, mu = L(5652^30)^-1 = 74; Enc(42; r = 23) = 4624.
    assert pow(5652, 42, 5929) * pow(23, 77, 5929) % 5929 == 4624
    assert decrypt_by_the_paper(4624, 7, 11, g=5652) == 42
    # With g = 78 a ciphertext opens to its class: classes divide as logarithms do (lemma 2).
    toy = sharing.split(sharing.DealerKey(7, 11), 3)
    assert open_jointly(toy, 4624) * pow(open_jointly(toy, 5652), -1, 77) % 77 == 42


def test_an_encryption_worked_out_by_hand() -> None:
    # m = 5, r = 2: (1 + 5 * 77) * 2^77 = 386 * 2^77 mod 5929. 2^13 = 8192 = 2263; 2^26 = 2263^2 =
    # 5121169 = 4442; 2^52 = 4442^2 = 19731364 = 5581; 2^77 = 2^52 * 2^13 * 2^12 = 5581 * 2263 *
    # 4096 = 1033 * 4096 = 3791; and 386 * 3791 = 1463326 = 4792.
    key = paillier.PublicKey(77, 4)
    assert paillier.encrypt(key, 5, blinding=3791) == 4792
    assert pow(2, 77, 5929) == 3791
    assert decrypt_by_the_paper(4792, 7, 11) == 5
    assert open_jointly(sharing.split(sharing.DealerKey(7, 11), 2), 4792) == 5


numbers = st.integers(0, 2**254)


@settings(max_examples=25)
@given(a=numbers, b=numbers)
@example(a=0, b=1)
def test_the_algebra_holds_with_wrap_around(
    dealer: sharing.DealerKey, keys: sharing.Keys, a: int, b: int
) -> None:
    key, n = keys.public, keys.public.n
    x, y = paillier.encrypt(key, a), paillier.encrypt(key, b)
    for ciphertext, plaintext in (
        (x, a),
        (paillier.product([x, y], key.n_squared), a + b),
        (paillier.product([x] * 7, key.n_squared), 7 * a),
        (paillier.encrypt(key, n - 1), -1),
    ):
        assert decrypt_by_the_paper(ciphertext, dealer.p, dealer.q) == plaintext % n
        assert open_jointly(keys, ciphertext) == plaintext % n


def test_plaintexts_out_of_range_are_refused(keys: sharing.Keys) -> None:
    for plaintext in (-1, keys.public.n):
        with pytest.raises(LabellingError, match="plaintext: must be in"):
            paillier.encrypt(keys.public, plaintext)


@pytest.mark.parametrize("bad", ["zero", "negative", "n^2", "n", "p"])
def test_what_is_no_ciphertext_is_refused(
    dealer: sharing.DealerKey, keys: sharing.Keys, bad: str
) -> None:
    key = keys.public
    c = {"zero": 0, "negative": -5, "n^2": key.n_squared, "n": key.n, "p": dealer.p}[bad]
    good, fault = paillier.encrypt(key, 1), r"\[1, n\^2\)|shares a factor"
    with pytest.raises(MessageError, match=fault):
        sharing.partial_decryption(key, keys.shares[0], c)
    with pytest.raises(MessageError, match=fault):
        sharing.combine(key, {0: good, 1: c, 2: good, 3: good}, 4)


@pytest.mark.parametrize("kind", ["full", "short"])
def test_blindings_are_fresh_n_th_powers(
    dealer: sharing.DealerKey, keys: sharing.Keys, kind: str
) -> None:
    drawn = {paillier.draw_blinding(keys.public, kind) for _ in range(50)}
    assert len(drawn) == 50
    assert {pow(b, dealer.order, keys.public.n_squared) for b in drawn} == {1}
    for blinding in drawn:
        paillier.check_ciphertext(keys.public, blinding)


def test_the_base_generates_no_small_group(dealer: sharing.DealerKey, keys: sharing.Keys) -> None:
    # h_n has an order that divides lambda; for a random one it is lambda up to small factors.
    base, modulus = keys.public.base, keys.public.n_squared
    assert all(pow(base, dealer.order // f, modulus) != 1 for f in (dealer.p - 1, dealer.q - 1))


@pytest.mark.parametrize(
    ("n", "base", "fault"),
    [
        *((n, 3, "not a product") for n in (16, 14)),
        *((77, base, "base: ") for base in (0, 7, 5929)),
        # Everybody could read these ciphertexts.
        *((77, base, "blind nothing") for base in (1, 76, 1 + 5 * 77, 5928)),
    ],
)
def test_a_spoilt_public_key_is_refused(n: int, base: int, fault: str) -> None:
    with pytest.raises(LabellingError, match=f"public key.*{fault}"):
        paillier.PublicKey(n, base)


@pytest.mark.parametrize("left_out", range(4))
def test_any_n_minus_1_shares_open_nothing(keys: sharing.Keys, left_out: int) -> None:
    parts = parts_of(keys, paillier.encrypt(keys.public, 42))
    del parts[left_out]
    with pytest.raises(ShareError, match=rf"all 4 shares; missing \[{left_out}\]"):
        sharing.combine(keys.public, parts, 4)
    with pytest.raises(ShareError, match="needs all 4 shares"):  # nor with one of nobody
        sharing.combine(keys.public, {**parts, 4: 1}, 4)
    # And with the count got round, the algebra itself refuses: three parts passed off as all.
    relabelled = dict(enumerate(parts.values()))
    with pytest.raises(ShareError, match="do not fit"):
        sharing.combine(keys.public, relabelled, 3)
    # Or with a neutral element in the place of the missing part.
    with pytest.raises(ShareError, match="do not fit"):
        sharing.combine(keys.public, {**parts, left_out: 1}, 4)


@pytest.mark.parametrize("left_out", range(3))
def test_n_minus_1_shares_fit_every_plaintext_equally(left_out: int) -> None:
    # p = 7, q = 11: n lambda = 77 * 30 = 2310 values that a missing share can have. Those under
    # which the ciphertext opens at all open it to each of the 77 plaintexts exactly once.
    toy = sharing.split(sharing.DealerKey(7, 11), 3)
    public = toy.public
    ciphertext = paillier.encrypt(public, 5, blinding=3791)
    parts = parts_of(toy, ciphertext)
    del parts[left_out]
    opened: Counter[int] = Counter()
    for value in range(2310):
        guess = replace(toy.shares[left_out], value=value)
        try:
            part = sharing.partial_decryption(public, guess, ciphertext)
            opened[sharing.combine(public, {**parts, left_out: part}, 3)] += 1
        except ShareError:
            continue
    assert set(opened) == set(range(77))
    assert len(set(opened.values())) == 1


def test_shares_are_uniform_whoever_holds_them() -> None:
    # Pairs of shares of a toy key, the dealer's balancing last share among them, in 3 x 3 boxes.
    dealer = sharing.DealerKey(7, 11)
    deals = [[s.value for s in sharing.split(dealer, 3).shares] for _ in range(4000)]
    assert {sum(values) % 2310 for values in deals} == {dealer.exponent()}
    for pair in ((0, 1), (0, 2), (1, 2)):
        boxes = Counter(tuple(values[i] // 770 for i in pair) for values in deals)
        assert chisquare(list(boxes.values())).pvalue > 1e-6
        assert len(boxes) == 9


def test_secrets_do_not_show(dealer: sharing.DealerKey, keys: sharing.Keys) -> None:
    assert str(dealer.p) not in repr(dealer)
    for share in keys.shares:
        assert str(share.value) not in repr(share)
        assert share.mac_key not in repr(share)


def test_random_primes_are_long_enough_for_their_product() -> None:
    primes = [sharing.random_prime(64) for _ in range(20)]
    assert len(set(primes)) == 20
    assert all(p % 4 == 3 and p >> 62 == 3 and p.bit_length() == 64 for p in primes)
    assert all(pow(a, p - 1, p) == 1 for p in primes for a in (2, 3, 5, 7, 11))


@given(
    base=st.integers(1, 2**200),
    exponent=st.integers(0, 2**100 - 1),
    modulus=st.integers(1, 2**300),
    window=st.integers(1, 7),
)
def test_a_table_gives_the_powers_of_its_base(
    base: int, exponent: int, modulus: int, window: int
) -> None:
    table = paillier.FixedBase(base, 100, modulus, window)
    assert table.power(exponent) % modulus == pow(base, exponent, modulus)
    for outside in (-1, 2**100):
        with pytest.raises(ValueError, match="at most 100 bits"):
            table.power(outside)


def test_a_key_of_2048_bits_opens() -> None:
    keys = sharing.split(sharing.generate(2048), 2)
    assert keys.public.n.bit_length() == 2048
    message = keys.public.n - 3
    assert open_jointly(keys, paillier.encrypt(keys.public, message)) == message


@pytest.mark.parametrize("pair", [(7, 7), (7, 13), (5, 11), (7, 43), (5, 7)])
def test_primes_that_do_not_suit_are_refused(pair: tuple[int, int]) -> None:
    with pytest.raises(LabellingError, match="p and q must differ"):
        sharing.DealerKey(*pair)


def test_a_key_for_one_is_not_shared(dealer: sharing.DealerKey) -> None:
    with pytest.raises(LabellingError, match="at least two"):
        sharing.split(dealer, 1)
