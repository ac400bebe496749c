"""Inputs and parameters: seeded, and of so few significant bits that every dtype holds them exactly.

Eight bits are what bfloat16 keeps. One float64 golden then serves every dtype, and no conversion
error enters a comparison.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from math import ceil, log2

import numpy as np

from conformance.language.arithmetic import Array
from conformance.language.errors import PackError
from conformance.pack.model import Draw

SIGNIFICANT = 255
"""The largest integer multiple of an array's quantum: eight significant bits."""
SMALLEST = 2.0**-24
"""The smallest quantum: float16's smallest subnormal."""


def generator(seed: int, *names: str) -> np.random.Generator:
    """A generator of its own for each named input, the same on every machine."""
    text = "\0".join((str(seed), *names)).encode()
    words = np.frombuffer(hashlib.sha256(text).digest(), dtype="<u4")
    return np.random.Generator(np.random.Philox(np.random.SeedSequence([int(w) for w in words])))


def few_bits(x: Array) -> Array:
    """`x` rounded to integers of at most eight bits times one power of two; float64."""
    largest = float(np.max(np.abs(x), initial=0.0))
    if largest == 0.0:
        return x
    quantum = max(2.0 ** ceil(log2(largest / SIGNIFICANT)), SMALLEST)
    return np.asarray(np.round(x / quantum) * quantum)


def normal(random: np.random.Generator, shape: Sequence[int], scale: float) -> Array:
    """Normal values of standard deviation `scale`, in few bits."""
    return few_bits(random.standard_normal(tuple(shape)) * scale)


def parameter(random: np.random.Generator, shape: Sequence[int], like: str, scale: float = 1.0) -> Array:
    """Random values of a parameter. Gains are not 1, biases not 0, no matrix is zero.

    `like` is matrix (1/√fan-in), embedding (1), gain (1 ± ¼) or bias (¼), each times `scale`.
    """
    match like:
        case "matrix":
            return normal(random, shape, scale / float(np.sqrt(shape[0])))
        case "embedding":
            return normal(random, shape, scale)
        case "gain":
            return few_bits(1 + random.standard_normal(tuple(shape)) * scale / 4)
        case "bias":
            return normal(random, shape, scale / 4)
    raise PackError(f"a parameter is like matrix, embedding, gain or bias, not '{like}'")


def draw(spec: Draw, shape: Sequence[int], random: np.random.Generator, sizes: Mapping[str, int]) -> Array:
    """The array that a case's `spec` describes; expressions are made elsewhere.

    Raises `PackError` when literal values do not have the shape.
    """
    match spec.form:
        case "normal":
            return normal(random, shape, float(spec.value))
        case "integers":
            low, high = spec.value
            return random.integers(low, high, size=tuple(shape))
        case "tokens":
            return random.integers(0, sizes["vocab"], size=tuple(shape))
        case "start":
            return np.asarray(spec.value + np.arange(shape[-1]))
        case "constant":
            value = spec.value
            array = np.asarray(value, dtype=None if isinstance(value, bool | int) else np.float64)
            return np.broadcast_to(array, tuple(shape)).copy()
        case "values":
            values = np.asarray(spec.value)
            if values.shape != tuple(shape):
                raise PackError(f"values of shape {list(values.shape)} where {list(shape)} is needed")
            return values.astype(np.float64) if values.dtype.kind == "f" else values
        case "left_padding":
            padding = np.resize(np.asarray(spec.value), shape[0])
            return np.asarray(np.arange(shape[1]) >= padding[:, None])
    raise PackError(f"an input cannot be made by '{spec.form}'")
