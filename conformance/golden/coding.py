"""σ in two bytes each: its logarithm in steps of 1/256 octave, rounded up.

A tolerance is a bound of noise that was itself estimated from 32 samples, so 0.3 % more of it tells
nobody anything, and never less keeps every verdict on the safe side.
"""

from __future__ import annotations

import numpy as np

from conformance.language.arithmetic import Array

STEPS = 256
"""Codes for each octave; a stored σ exceeds the true one by less than 2^(1/256) = 1.0027."""
ZERO, INFINITE = 0, 65535
_LAST = INFINITE - 1


def encode(sigma: Array) -> tuple[int, Array]:
    """σ as a base and uint16 codes: code c stands for 2^((base + c) / 256), 0 for 0 and 65535 for infinity.

    What is 2^255 times smaller than the largest becomes that small: beside it nothing is lost.
    Raises `ValueError` for a NaN or a negative number.
    """
    flat = np.ascontiguousarray(sigma, dtype=np.float64).reshape(-1)
    if not (flat >= 0).all():
        raise ValueError("σ is NaN or negative")
    codes = np.full(flat.shape, INFINITE, np.uint16)
    codes[flat == 0] = ZERO
    some = (flat > 0) & np.isfinite(flat)
    if not some.any():
        return 0, codes
    values = flat[some]
    steps = np.ceil(np.log2(values) * STEPS).astype(np.int64)
    steps += power(steps) < values  # the logarithm may itself have been rounded down
    base = int(steps.max()) - _LAST
    codes[some] = np.maximum(steps - base, 1).astype(np.uint16)
    return base, codes


def decode(base: int, codes: Array, shape: tuple[int, ...]) -> Array:
    """The σ that `encode` was given, or up to 0.3 % more; float64 of `shape`."""
    values = power(codes.astype(np.int64) + base)
    values[codes == ZERO] = 0.0
    values[codes == INFINITE] = np.inf
    return values.reshape(shape)


def power(steps: Array) -> Array:
    """2^(steps / 256)."""
    with np.errstate(all="ignore"):
        return np.asarray(np.exp2(steps / STEPS))
