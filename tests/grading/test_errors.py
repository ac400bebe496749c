"""The error of an element in tolerances, in the usual case and in all others: the same rule for each element."""

import math

import numpy as np
import pytest

from conformance.judging.compare import errors

ODD = [0.0, -0.0, 1.0, -1.5, 5e-324, 1e308, -1e308, math.inf, -math.inf, math.nan]


def error(value, expected, allowed, counts):
    """By the definition: of one element."""
    if not counts or not math.isfinite(allowed):
        return -1.0
    if value == expected:
        return 0.0
    if not math.isfinite(value):
        return math.inf
    apart = abs(value - expected)
    return math.inf if allowed <= 0 or math.isnan(apart) else apart / allowed


TOLERANCES = [[0.25, 5e-324], [0.25, 0.0, 1e-9], [0.5, math.inf], [math.nan, 1.0], [-1.0, 1.0]]


@pytest.mark.parametrize("tolerances", TOLERANCES)
@pytest.mark.parametrize("values", [[0.0, 1.0, -1.5], ODD])
@pytest.mark.parametrize("counted", [False, True])
def test_each_element_is_judged_by_itself(values, tolerances, counted):
    random = np.random.default_rng(3)
    value, expected = (random.choice(values, size=(7, 1, 11)) for _ in range(2))
    allowed = random.choice(tolerances, size=value.shape)
    counts = random.random((7, 1, 1)) < 0.5 if counted else None
    found = errors(value, expected, allowed, counts)
    given = np.broadcast_to(True if counts is None else counts, value.shape)
    with np.errstate(all="ignore"):
        wanted = [
            error(*map(float, one))
            for one in zip(value.flat, expected.flat, allowed.flat, given.flat, strict=True)
        ]
    assert found.shape == value.shape
    assert found.ravel().tolist() == wanted


def test_nothing_has_no_error():
    empty = np.empty((2, 0, 3))
    assert errors(empty, empty, empty).shape == empty.shape
