"""The stochastic reading: the program with rounding errors drawn at random, many times at once.

What a correct implementation may differ by is not a number to be chosen but a property of the
formula, the data and the dtype. Monte Carlo arithmetic (Parker 1997; Verificarlo, Denis et al.
2016) measures it: every operation's result is perturbed by at most one unit of roundoff, and the
spread of the results is the error to expect. Each sum is perturbed further, since its order is
free. `docs/decisions/tolerances.md` argues for each term.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from conformance.language.arithmetic import ANGULAR, TRANSCENDENTAL, Array, NumpyArithmetic
from conformance.language.contraction import contract
from conformance.language.sizes import Dimension, Size

ROUNDOFF = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
HALF_SUBNORMAL = {"float64": 2.0**-1075, "float32": 2.0**-150, "float16": 2.0**-25, "bfloat16": 2.0**-134}
LARGEST = {
    "float64": 1.7976931348623157e308,
    "float32": 3.4028234663852886e38,
    "float16": 65504.0,
    "bfloat16": 3.3895313892515355e38,
}
SAMPLES = 32
"""Eight are too few: the smallest of their estimates made correct implementations fail."""
ACCUMULATOR = 2.0**-24
"""Sums are accumulated in float32 at least, also by float16 and bfloat16 kernels."""
BLOCKS = 8
"""Partial sums of a sixteen-bit contraction that may be rounded to the dtype (split-K, blocks)."""


class Noise(NumpyArithmetic):
    """An arithmetic whose arrays hold `SAMPLES` noisy copies along a hidden first axis.

    Exact values (integers, masks, inputs) have size 1 there and are never perturbed.
    """

    def __init__(self, dtype: str, random: np.random.Generator, samples: int = SAMPLES) -> None:
        """`dtype` is that of the implementation whose errors are modelled."""
        self.dtype, self.random, self.samples = dtype, random, samples
        self.roundoff = ROUNDOFF[dtype]

    def lift(self, a: Array) -> Array:
        """An exact array as one of this arithmetic."""
        return np.asarray(a)[None]

    def jitter(self, shape: Sequence[int]) -> Array:
        """Uniform in [-1, 1], one draw for each sample."""
        drawn = self.random.random((self.samples, *shape[1:]))
        drawn *= 2
        drawn -= 1
        return drawn

    def rounded(self, a: Array) -> Array:
        """Rule 1: x (1 + u ξ), plus half the smallest subnormal; infinite past the dtype's range."""
        limit = LARGEST[self.dtype]
        with np.errstate(all="ignore"):
            noisy = self._perturbed(a, self.roundoff)
            if HALF_SUBNORMAL[self.dtype] > 1e-40:
                noisy += HALF_SUBNORMAL[self.dtype] * self.jitter(a.shape)
            if -limit <= noisy.min(initial=0.0) and noisy.max(initial=0.0) <= limit:
                return noisy  # nearly always: all is finite
            if self.dtype != "float64":
                noisy = np.where(np.abs(noisy) > limit, np.copysign(np.inf, noisy), noisy)
            return np.where(np.isfinite(a), noisy, a)

    def _perturbed(self, a: Array, u: float) -> Array:
        """The array times 1 + u ξ, made where ξ was drawn: these arrays are large, and copying them is what costs."""
        drawn = self.jitter(a.shape)
        drawn *= u
        noisy = np.multiply(a, drawn, out=drawn if drawn.dtype == a.dtype else None)
        noisy += a
        return noisy

    def constant(self, value: float | Size) -> Array:
        """An exact number."""
        return super().constant(value)[None]

    def shape(self, a: Array) -> tuple[int, ...]:
        """Sizes without the samples."""
        return a.shape[1:]

    def elementwise(self, name: str, *arrays: Array) -> Array:
        """Rule 2: the argument of a transcendental is perturbed too, an angle at float32's u."""
        if name in TRANSCENDENTAL:
            x = arrays[0].astype(np.float64, copy=False)
            u = min(self.roundoff, ACCUMULATOR) if name in ANGULAR else self.roundoff
            finite = np.isfinite(x)
            with np.errstate(all="ignore"):
                if finite.all():
                    arrays = (self._perturbed(x, u),)
                else:
                    arrays = (x + np.where(finite, x, 0) * (u * self.jitter(x.shape)),)
        rank = max(a.ndim for a in arrays)
        padded = (a.reshape(a.shape[:1] + (1,) * (rank - a.ndim) + a.shape[1:]) for a in arrays)
        return super().elementwise(name, *padded)

    def contract(self, spec: str, a: Array, b: Array) -> Array:
        """A sum of products, with the errors of its terms and partial sums."""
        a, b = self._operands((a, b))
        operands, out = spec.split("->")
        left, right = operands.split(",")
        hidden = f"Z{left},Z{right}->Z{out}"
        with np.errstate(all="ignore"):
            total = contract(hidden, a, b)
            if total.dtype.kind != "f":
                return total
            squares = contract(hidden, a * a, b * b)
        terms = 1
        for letter in left:
            if letter in right and letter not in out:
                terms *= a.shape[left.index(letter) + 1]
        return self.rounded(self._summed(total, squares, terms))

    def _summed(self, total: Array, squares: Array, terms: int) -> Array:
        """Rule 3: ⅓ [u² (Q + b (S²/3 + Q/6)) + v² n (S²/3 + Q/6)] is the variance to add."""
        u, v = self.roundoff, min(self.roundoff, ACCUMULATOR)
        blocks = min(terms, BLOCKS) if u > ACCUMULATOR else 0
        with np.errstate(all="ignore"):
            partial = total * total / 3 + squares / 6
            rounded = squares + blocks * partial if blocks else squares
            variance = (u * u * rounded + v * v * terms * partial) / 3
            noisy = self.random.standard_normal((self.samples, *total.shape[1:]))
            noisy *= np.sqrt(variance)
            noisy += total
        finite = np.isfinite(variance)
        return noisy if finite.all() else np.where(finite, noisy, total)

    def reduce(self, name: str, a: Array, axis: int) -> Array:
        """A sum is a contraction with ones."""
        if name != "sum" or a.dtype.kind != "f":
            return super().reduce(name, a, axis + 1)
        with np.errstate(all="ignore"):
            total, squares = a.sum(axis=axis + 1), (a * a).sum(axis=axis + 1)
        return self.rounded(self._summed(np.asarray(total), np.asarray(squares), a.shape[axis + 1]))

    def cumulative_sum(self, a: Array, axis: int) -> Array:
        """Of masks and integers only, so exact."""
        return super().cumulative_sum(a, axis + 1)

    def transpose(self, a: Array, order: Sequence[int]) -> Array:
        """Axes in another order, samples first."""
        return a.transpose((0, *(i + 1 for i in order)))

    def reshape(self, a: Array, sizes: Sequence[Dimension]) -> Array:
        """Other sizes for each sample."""
        return super().reshape(a, (a.shape[0], *sizes))

    def take(self, a: Array, indices: Array, axis: int) -> Array:
        """Indices are exact, the same for every sample."""
        return np.asarray(np.take(a, indices[0].astype(np.int64), axis=axis + 1))

    def concatenate(self, arrays: Sequence[Array], axis: int) -> Array:
        """Exact parts are repeated for each sample where others are noisy."""
        samples = max(a.shape[0] for a in arrays)
        full = [np.broadcast_to(a, (samples, *a.shape[1:])) for a in arrays]
        return super().concatenate(full, axis + 1)

    def last(self, a: Array, count: Dimension, axis: int) -> Array:
        """The last entries along an axis."""
        return super().last(a, count, axis + 1)

    def iota(self, size: Dimension) -> Array:
        """0, 1, …, exactly."""
        return super().iota(size)[None]

    def widened(self) -> Noise:
        """Angles are kept in float32 at least."""
        if self.roundoff <= ACCUMULATOR:
            return self
        return Noise("float32", self.random, self.samples)


def spread(samples: Array, exact: Array) -> Array:
    """Rule 4: the RMS deviation of each element, or of its whole last axis where that is larger.

    `samples` is [samples, …] or [1, …], `exact` [...]. Infinite where a sample is not finite
    although the exact value is; zero where the exact value is not finite itself.
    """
    if exact.dtype.kind != "f":  # masks and indices are exact
        return np.zeros(exact.shape)
    with np.errstate(all="ignore"):
        deviation = samples - exact
        square = np.mean(deviation * deviation, axis=0)
    finite = np.isfinite(exact)
    square = np.where(finite, np.where(np.isfinite(square), square, np.inf), 0.0)
    if square.ndim:
        counted = np.maximum(finite.sum(axis=-1, keepdims=True), 1)
        square = np.maximum(square, square.sum(axis=-1, keepdims=True) / counted)
    return np.asarray(np.sqrt(square))


def default_generator(key: str) -> np.random.Generator:
    """The noise of one scenario: the same in every run."""
    return np.random.Generator(
        np.random.SFC64(np.random.SeedSequence([int(key[i : i + 8], 16) for i in range(0, 64, 8)]))
    )
