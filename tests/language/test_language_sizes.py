"""Symbolic sizes: the algebra that tells two lengths apart without knowing either."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.language.sizes import Dimension, Size

B, T, H, D = map(Size.symbol, ("B", "Tq", "H", "Dh"))


def test_products_do_not_mind_the_order() -> None:
    assert H * D == D * H
    assert hash(H * D) == hash(D * H)


def test_two_names_are_two_sizes() -> None:
    assert T != B
    assert T + B - T == B


def test_what_cancels_is_a_number_again() -> None:
    assert (T + 3) - T == 3
    assert type((T + 3) - T) is int
    assert 0 * T == 0


def test_quotients_of_products_are_exact() -> None:
    assert (D // 2) * 2 == D
    assert (H // B) * B == H
    assert (H * D) // H == D
    assert (2 * H * D) // (4 * D) == H // 2


def test_sums_are_divided_where_each_term_can_be() -> None:
    assert (T * H + H) // H == T + 1


def test_other_quotients_and_remainders_are_names_of_their_own() -> None:
    assert (T + 1) // 2 == (T + 1) // 2
    assert ((T + 1) // 2) * 2 != T + 1
    assert T % 2 != T
    assert 7 % T == 7 % T


def test_division_by_nothing() -> None:
    with pytest.raises(ZeroDivisionError, match="the size Tq divided by 0"):
        T // 0


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (T, "Tq"),
        (H * D, "Dh*H"),
        (2 * B * T + 1, "2*B*Tq + 1"),
        (1 - T, "-Tq + 1"),
        (B - T, "B - Tq"),
        (D // 2, "Dh/2"),
        (3 * D // 2, "3*Dh/2"),
        (H // (B * D), "H/(B*Dh)"),
        (8 // T, "8/Tq"),
        (T * T, "Tq*Tq"),
        ((T + 1) // 2, "((Tq + 1) // 2)"),
        (T % 2, "(Tq % 2)"),
        (Size.of(0), "0"),
    ],
)
def test_they_read_as_one_would_write_them(size: Dimension, text: str) -> None:
    assert str(size) == text


def test_it_knows_what_it_is_made_of() -> None:
    assert Size.of(H * D + 1).names() == {"H", "Dh"}


_numbers = st.integers(-3, 3)
_terms = st.lists(st.tuples(_numbers, st.lists(st.sampled_from("abc"), max_size=3)), max_size=4)


def _symbolic(terms: list[tuple[int, list[str]]]) -> Dimension:
    total: Dimension = 0
    for factor, names in terms:
        product: Dimension = factor
        for name in names:
            product = product * Size.symbol(name)
        total = total + product
    return total


def _at(size: Dimension, values: dict[str, int]) -> int:
    total = 0
    for monomial, coefficient in Size.of(size).terms:
        product = int(coefficient)
        for name, power in monomial:
            product *= values[name] ** power
        total += product
    return total


@given(_terms, _terms, st.fixed_dictionaries({name: st.integers(1, 5) for name in "abc"}))
def test_they_compute_as_numbers_do(one: list, other: list, values: dict[str, int]) -> None:
    a, b = _symbolic(one), _symbolic(other)
    assert _at(a + b, values) == _at(a, values) + _at(b, values)
    assert _at(a - b, values) == _at(a, values) - _at(b, values)
    assert _at(a * b, values) == _at(a, values) * _at(b, values)
    assert a + b == b + a
    assert a * b == b * a
