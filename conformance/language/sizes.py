"""Sizes that may still be symbols: the integers of a check that runs on no data.

A `Size` is a polynomial in named sizes (`B`, `Tq`, `H*Dh`). Two sizes are equal when they are the
same polynomial, so `H*Dh` and `Dh*H` agree and `Tq` and `Tk` do not. A quotient of two products
(`Dh // 2`, `H // Hkv`) is taken to be exact, so that twice `Dh/2` is `Dh` again: a program divides
sizes in order to split an axis, which needs just that. Any other quotient is an opaque name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction

Monomial = tuple[tuple[str, int], ...]
"""Names and their exponents, sorted by name."""
Coefficient = int | Fraction
"""A whole number as an int, which is what nearly all are and what is fast."""


@dataclass(frozen=True)
class Size:
    """A symbolic size: monomials and their coefficients, at least one of them with a name."""

    terms: tuple[tuple[Monomial, Coefficient], ...]

    @staticmethod
    def symbol(name: str) -> Size:
        """The size that is called `name`."""
        return Size(((((name, 1),), 1),))

    @staticmethod
    def of(value: Dimension) -> Size:
        """An integer as a size; a size as itself."""
        if isinstance(value, Size):
            return value
        return Size((((), value),) if value else ())

    def names(self) -> frozenset[str]:
        """The symbols that it is made of."""
        return frozenset(name for monomial, _ in self.terms for name, _ in monomial)

    def __add__(self, other: Dimension) -> Dimension:
        """Sum."""
        total = dict(self.terms)
        for monomial, coefficient in Size.of(other).terms:
            total[monomial] = total.get(monomial, 0) + coefficient
        return _simplest(total)

    __radd__ = __add__

    def __mul__(self, other: Dimension) -> Dimension:
        """Product."""
        total: dict[Monomial, Coefficient] = {}
        for left, a in self.terms:
            for right, b in Size.of(other).terms:
                monomial = _times(left, right, 1)
                total[monomial] = total.get(monomial, 0) + a * b
        return _simplest(total)

    __rmul__ = __mul__

    def __neg__(self) -> Dimension:
        """Negation."""
        return self * -1

    def __sub__(self, other: Dimension) -> Dimension:
        """Difference."""
        return self + -Size.of(other)

    def __rsub__(self, other: Dimension) -> Dimension:
        """Difference, the other way round."""
        return -self + other

    def __floordiv__(self, other: Dimension) -> Dimension:
        """Exact quotient where there is one or where both are products, else a name of its own."""
        divisor = Size.of(other)
        if not divisor.terms:
            raise ZeroDivisionError(f"the size {self} divided by 0")
        if len(divisor.terms) == 1:
            ((names, coefficient),) = divisor.terms
            quotient = {_times(monomial, names, -1): Fraction(a) / coefficient for monomial, a in self.terms}
            exact = all(
                a.denominator == 1 and all(power > 0 for _, power in monomial)
                for monomial, a in quotient.items()
            )
            if exact or len(self.terms) == 1:
                return _simplest(quotient)
        return Size.symbol(f"({_whole(self)} // {_whole(divisor)})")

    def __rfloordiv__(self, other: Dimension) -> Dimension:
        """An integer divided by a symbol."""
        return Size.of(other) // self

    def __mod__(self, other: Dimension) -> Dimension:
        """Remainder; a name of its own, since sizes are not known to divide."""
        return Size.symbol(f"({_whole(self)} % {_whole(Size.of(other))})")

    def __rmod__(self, other: Dimension) -> Dimension:
        """Remainder, the other way round."""
        return Size.of(other) % self

    def __str__(self) -> str:
        """`2*B*Tq + 1`."""
        if not self.terms:
            return "0"
        text = " ".join(_term(monomial, coefficient) for monomial, coefficient in self.terms)
        return text.removeprefix("+ ") if text.startswith("+") else "-" + text.removeprefix("- ")


Dimension = int | Size


def number(size: Dimension) -> int:
    """A size that is known. Raises `TypeError` for a symbol: arrays of numbers have none."""
    if isinstance(size, Size):
        raise TypeError(f"the size {size} is a symbol and has no value")
    return size


EXACT: dict[str, Callable[[Dimension, Dimension], Dimension]] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "floor_divide": lambda a, b: a // b,
    "remainder": lambda a, b: a % b,
}
"""The operators that make sizes of sizes, by the names of elementwise functions."""


def _whole(size: Size) -> str:
    """A sum in parentheses."""
    return f"({size})" if len(size.terms) > 1 else str(size)


def _times(left: Monomial, right: Monomial, power: int) -> Monomial:
    """`left` times `right` to the given power."""
    exponents = dict(left)
    for name, exponent in right:
        exponents[name] = exponents.get(name, 0) + exponent * power
    return tuple(sorted((name, exponent) for name, exponent in exponents.items() if exponent))


def _simplest(terms: Mapping[Monomial, Coefficient]) -> Dimension:
    kept = {monomial: c.numerator if c.denominator == 1 else c for monomial, c in terms.items() if c}
    if not kept:
        return 0
    if len(kept) == 1:
        ((monomial, constant),) = kept.items()
        if not monomial and isinstance(constant, int):
            return constant
    # Products before the constant, as one writes them: `B*T + 1`.
    return Size(tuple(sorted(kept.items(), key=lambda term: (not term[0], term[0]))))


def _term(monomial: Monomial, coefficient: Coefficient) -> str:
    """`+ 2*B*Tq`, `- Dh/2`."""
    over = [name for name, power in monomial for _ in range(power)]
    under = [name for name, power in monomial for _ in range(-power)]
    number: Fraction = abs(Fraction(coefficient))
    if number.numerator != 1 or not over:
        over.insert(0, str(number.numerator))
    if number.denominator != 1:
        under.insert(0, str(number.denominator))
    below = f"({'*'.join(under)})" if len(under) > 1 else "".join(under)
    return ("- " if coefficient < 0 else "+ ") + "*".join(over) + (f"/{below}" if below else "")
