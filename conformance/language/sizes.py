"""Sizes that may still be symbols: the integers of a check that runs on no data.

A `Size` is a polynomial with integer coefficients in named sizes (`B`, `Tq`, `H*Dh`); an exact
division of it stays one, any other division becomes an opaque name. Two sizes are equal when
they are the same polynomial, so `H*Dh` and `Dh*H` agree and `Tq` and `Tk` do not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

Monomial = tuple[str, ...]


@dataclass(frozen=True)
class Size:
    """A symbolic size: monomials (sorted names) and their coefficients."""

    terms: tuple[tuple[Monomial, int], ...]

    @staticmethod
    def symbol(name: str) -> Size:
        """The size that is called `name`."""
        return Size((((name,), 1),))

    @staticmethod
    def of(value: Dimension) -> Size:
        """An integer as a size; a size as itself."""
        if isinstance(value, Size):
            return value
        return Size((((), value),) if value else ())

    def __add__(self, other: Dimension) -> Dimension:
        """Sum."""
        total = Counter(dict(self.terms))
        for monomial, coefficient in Size.of(other).terms:
            total[monomial] += coefficient
        return _simplest(total)

    __radd__ = __add__

    def __mul__(self, other: Dimension) -> Dimension:
        """Product."""
        total: Counter[Monomial] = Counter()
        for left, a in self.terms:
            for right, b in Size.of(other).terms:
                total[tuple(sorted(left + right))] += a * b
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
        """Exact quotient where there is one, else a name of its own."""
        divisor = Size.of(other)
        if len(divisor.terms) == 1:
            ((names, coefficient),) = divisor.terms
            quotient: Counter[Monomial] = Counter()
            for monomial, a in self.terms:
                rest = Counter(monomial)
                rest.subtract(Counter(names))
                if a % coefficient or min(rest.values(), default=0) < 0:
                    break
                quotient[tuple(sorted(rest.elements()))] = a // coefficient
            else:
                return _simplest(quotient)
        return Size.symbol(f"({self} // {divisor})")

    def __rfloordiv__(self, other: Dimension) -> Dimension:
        """An integer divided by a symbol."""
        return Size.of(other) // self

    def __mod__(self, other: Dimension) -> Dimension:
        """Remainder; a name of its own, since sizes are not known to divide."""
        return Size.symbol(f"({self} % {Size.of(other)})")

    def __str__(self) -> str:
        """`2*B*Tq + 1`."""
        parts = []
        for monomial, coefficient in self.terms:
            factors = ([str(coefficient)] if coefficient != 1 or not monomial else []) + list(monomial)
            parts.append("*".join(factors))
        return " + ".join(parts) or "0"


Dimension = int | Size


def _simplest(terms: Mapping[Monomial, int]) -> Dimension:
    kept = {monomial: c for monomial, c in terms.items() if c}
    if set(kept) <= {()}:
        return kept.get((), 0)
    return Size(tuple(sorted(kept.items())))
