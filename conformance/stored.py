"""Readings in which weights stay as they are stored: a hundred million of them are not copied into float64.

A product with an array that is stored in float32 or less runs in float32, so it errs like a careful
implementation's; everything else is float64. Who compares with such a reading allows for both errors.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from conformance.language.arithmetic import Array, Float64, NumpyArithmetic
from conformance.language.contraction import contract
from conformance.noise import Noise


def narrow(a: Array) -> bool:
    """Whether an array is one of the stored ones: of floats below float64."""
    return a.dtype.kind == "f" and a.dtype.itemsize < 8


def product(spec: str, a: Array, b: Array) -> Array:
    """`einsum` of two arrays of which one is stored, summed in float32; the result is float64."""
    with np.errstate(all="ignore"):
        return contract(spec, a.astype(np.float32, copy=False), b.astype(np.float32, copy=False)).astype(
            np.float64
        )


class _Widening(NumpyArithmetic):
    """Whatever is made of a stored array is float64, but for its own parts in another order."""

    def _operands(self, arrays: tuple[Array, ...]) -> tuple[Array, ...]:
        return super()._operands(tuple(_wide(a) for a in arrays))

    def reduce(self, name: str, a: Array, axis: int) -> Array:
        """As of float64."""
        return super().reduce(name, _wide(a), axis)

    def take(self, a: Array, indices: Array, axis: int) -> Array:
        """Rows of a stored array are few."""
        return _wide(super().take(a, indices, axis))


class Stored(_Widening, Float64):
    """The reading that gives expected values, to within the rounding of products in float32."""

    def contract(self, spec: str, a: Array, b: Array) -> Array:
        """In float32 where an operand is stored."""
        if (narrow(a) or narrow(b)) and a.dtype.kind == b.dtype.kind:
            return product(spec, a, b)
        return super().contract(spec, a, b)


class StoredNoise(_Widening, Noise):
    """The stochastic reading. The real rounding of float32 products comes on top of the noise that is drawn."""

    def contract(self, spec: str, a: Array, b: Array) -> Array:
        """Of a stored matrix one copy serves all samples, and one sample serves for the sum of squares."""
        operands, out = spec.split("->")
        left, right = operands.split(",")
        if not (narrow(a) or narrow(b)) or a.dtype.kind != b.dtype.kind:
            return super().contract(spec, a, b)
        if narrow(b) and len(b) == 1:
            hidden, x, stored = f"Z{left},{right}->Z{out}", a, b[0]
            total = product(hidden, x, stored)
            squares = product(hidden, np.square(x[:1]), np.square(stored))
        elif narrow(a) and len(a) == 1:
            hidden, x, stored = f"{left},Z{right}->Z{out}", b, a[0]
            total = product(hidden, stored, x)
            squares = product(hidden, np.square(stored), np.square(x[:1]))
        else:
            return super().contract(spec, a, b)
        terms = 1
        for letter in left:
            if letter in right and letter not in out:
                terms *= a.shape[left.index(letter) + 1]
        return self.rounded(self._summed(total, squares, terms))

    def jitter(self, shape: Sequence[int]) -> Array:
        """As of `Noise`; 24 bits of a draw are enough, and half the work."""
        return self.random.random((self.samples, *shape[1:]), np.float32) * np.float32(2) - np.float32(1)

    def widened(self) -> Noise:
        """Angles are kept in float32 at least."""
        wide = super().widened()
        return self if wide is self else StoredNoise("float32", self.random, self.samples)


def _wide(a: Array) -> Array:
    return a.astype(np.float64) if narrow(a) else a
