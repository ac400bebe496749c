"""What an arithmetic must be able to do, and the plain ones: float64 and a native dtype.

The evaluator knows names, axes and functions; an `Arithmetic` knows arrays. Whoever writes
another one (symbolic sizes, noise, balls, a graph) reads the whole program in that arithmetic.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from conformance.language.contraction import contract
from conformance.language.sizes import Dimension, Size, number

A = TypeVar("A")
Array = npt.NDArray[Any]


class Arithmetic(Protocol[A]):
    """Operations on arrays of the arithmetic's own kind. Shapes already agree or broadcast.

    An array has one of three kinds: "bool", "int" (exact) or "real" (rounded as the arithmetic
    rounds). Names of elementwise functions are those of `ELEMENTWISE`.
    """

    def constant(self, value: float | Size) -> A:
        """A number (bool, int or float) as an array without axes; a size, where sizes are symbols."""

    def shape(self, a: A) -> tuple[Dimension, ...]:
        """The sizes of `a`."""

    def elementwise(self, name: str, *arrays: A) -> A:
        """A function of `ELEMENTWISE` on arrays that broadcast as in NumPy."""

    def contract(self, spec: str, a: A, b: A) -> A:
        """`einsum` of two arrays; the letters that `spec` drops are summed over."""

    def reduce(self, name: str, a: A, axis: int) -> A:
        """The reduction "sum", "max", "any" or "all" over one axis."""

    def cumulative_sum(self, a: A, axis: int) -> A:
        """Running sum along one axis."""

    def transpose(self, a: A, order: Sequence[int]) -> A:
        """Axes in another order."""

    def reshape(self, a: A, sizes: Sequence[Dimension]) -> A:
        """The same elements in C order under other sizes."""

    def take(self, a: A, indices: A, axis: int) -> A:
        """Entries along `axis`; the axes of `indices` stand in its place."""

    def concatenate(self, arrays: Sequence[A], axis: int) -> A:
        """Arrays one after the other along an axis."""

    def last(self, a: A, count: Dimension, axis: int) -> A:
        """The last `count` entries along an axis."""

    def iota(self, size: Dimension) -> A:
        """0, 1, …, size - 1."""

    def widened(self) -> Arithmetic[A]:
        """The arithmetic of values that honest code keeps in float32 at least (angles)."""


def _erf(x: Array) -> Array:
    from math import erf

    return np.asarray(np.frompyfunc(erf, 1, 1)(x), dtype=np.float64)


ELEMENTWISE: dict[str, Any] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "floor_divide": np.floor_divide,
    "remainder": np.remainder,
    "power": np.power,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "negative": np.negative,
    "abs": np.abs,
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
    "erf": _erf,
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "equal": np.equal,
    "not_equal": np.not_equal,
    "and": np.logical_and,
    "or": np.logical_or,
    "not": np.logical_not,
    "where": np.where,
    "finite": np.isfinite,
}
"""Every elementwise function of the language, with its NumPy form."""

TRANSCENDENTAL = frozenset({"exp", "log", "sin", "cos", "tanh", "erf"})
ANGULAR = frozenset({"sin", "cos"})
REDUCE: dict[str, Any] = {"sum": np.add, "max": np.maximum, "any": np.logical_or, "all": np.logical_and}


class NumpyArithmetic:
    """Shared by every arithmetic whose arrays are NumPy's; real results pass through `rounded`.

    `real` is the dtype in which results are computed.
    """

    real: np.dtype[Any] = np.dtype(np.float64)

    def lift(self, a: Array) -> Array:
        """An exact input as an array of this arithmetic."""
        return a

    def rounded(self, a: Array) -> Array:
        """A real result as this arithmetic keeps it."""
        return a

    def _operands(self, arrays: tuple[Array, ...]) -> tuple[Array, ...]:
        """Ints become real where they meet a real: positions times a frequency."""
        kinds = [a.dtype.kind for a in arrays]
        if "i" in kinds and "f" in kinds:
            return tuple(a.astype(self.real) if a.dtype.kind == "i" else a for a in arrays)
        return arrays

    def constant(self, value: float | Size) -> Array:
        """A number as an array without axes."""
        if isinstance(value, bool):
            return np.asarray(value)
        if isinstance(value, Size):
            value = number(value)
        return np.asarray(value, np.int64 if isinstance(value, int) else self.real)

    def shape(self, a: Array) -> tuple[int, ...]:
        """The sizes of `a`."""
        return a.shape

    def elementwise(self, name: str, *arrays: Array) -> Array:
        """Without NumPy's warnings: an overflow is a value here, and judged as one."""
        operands = self._operands(arrays)
        if name in _REAL_RESULT:
            operands = tuple(a if a.dtype.kind == "f" else a.astype(self.real) for a in operands)
        with np.errstate(all="ignore"):
            result = np.asarray(ELEMENTWISE[name](*operands))
        return self.rounded(result) if result.dtype.kind == "f" and name not in _EXACT else result

    def contract(self, spec: str, a: Array, b: Array) -> Array:
        """`einsum` of two arrays."""
        with np.errstate(all="ignore"):
            return self.rounded(contract(spec, *self._operands((a, b))))

    def reduce(self, name: str, a: Array, axis: int) -> Array:
        """A reduction over one axis; only a real sum rounds."""
        with np.errstate(all="ignore"):
            result = np.asarray(REDUCE[name].reduce(a, axis=axis))
        return self.rounded(result) if name == "sum" and result.dtype.kind == "f" else result

    def cumulative_sum(self, a: Array, axis: int) -> Array:
        """Running sum; of a mask it counts."""
        if a.dtype.kind in "bi":
            return np.cumsum(a, axis=axis, dtype=np.int64)
        with np.errstate(all="ignore"):
            return self.rounded(np.cumsum(a, axis=axis))

    def transpose(self, a: Array, order: Sequence[int]) -> Array:
        """Axes in another order."""
        return a.transpose(order)

    def reshape(self, a: Array, sizes: Sequence[Dimension]) -> Array:
        """The same elements in C order under other sizes."""
        return a.reshape([number(size) for size in sizes])

    def take(self, a: Array, indices: Array, axis: int) -> Array:
        """Entries along an axis."""
        return np.asarray(np.take(a, indices.astype(np.int64), axis=axis))

    def concatenate(self, arrays: Sequence[Array], axis: int) -> Array:
        """Arrays one after the other."""
        return np.concatenate(list(arrays), axis=axis)

    def last(self, a: Array, count: Dimension, axis: int) -> Array:
        """The last entries along an axis."""
        size = a.shape[axis]
        return np.take(a, np.arange(size - number(count), size), axis=axis)

    def iota(self, size: Dimension) -> Array:
        """0, 1, …, size - 1."""
        return np.arange(number(size))

    def widened(self) -> NumpyArithmetic:
        """float64 is wide enough already."""
        return self


_EXACT = frozenset({"negative", "abs", "maximum", "minimum", "where"})
_REAL_RESULT = frozenset({"divide", "power", "exp", "log", "sqrt", "sin", "cos", "tanh", "erf"})


class Float64(NumpyArithmetic):
    """The reading that gives expected values: IEEE double precision throughout."""


class Native(NumpyArithmetic):
    """The program as a careful author would run it in `dtype`: every result is rounded to it.

    Sixteen-bit contractions accumulate in float32, as hardware and libraries do; bfloat16 is
    float32 rounded to eight bits, so that no further package is needed.
    """

    def __init__(self, dtype: str) -> None:
        """`dtype` is "float64", "float32", "float16" or "bfloat16"."""
        self.dtype = dtype
        self.real = np.dtype(np.float64 if dtype == "float64" else np.float32)

    def lift(self, a: Array) -> Array:
        """An input in the dtype; inputs have so few bits that nothing is lost."""
        return a.astype(self.real) if a.dtype.kind == "f" else a

    def rounded(self, a: Array) -> Array:
        """To the nearest value of the dtype, ties to even, overflow to infinity."""
        if a.dtype == self.real and self.dtype not in ("float16", "bfloat16"):
            return a
        with np.errstate(all="ignore"):
            if self.dtype == "float16":
                return np.asarray(a, np.float16).astype(np.float32)
            if self.dtype == "bfloat16":
                return to_bfloat16(np.asarray(a, np.float32))
            return np.asarray(a, self.real)

    def widened(self) -> Native:
        """float32 for the sixteen-bit dtypes."""
        return Native("float32") if self.dtype in ("float16", "bfloat16") else self


def to_bfloat16(a: Array) -> Array:
    """float32 values rounded to the nearest bfloat16 (ties to even), kept as float32."""
    bits = np.asarray(a, np.float32).view(np.uint32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)
    return np.asarray(np.where(np.isfinite(a), rounded.astype(np.uint32).view(np.float32), a))
