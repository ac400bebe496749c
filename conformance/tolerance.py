"""How far a correct implementation may be from the exact value: the one place that says so.

The spread σ of the stochastic reading (`noise`) times `FACTOR`. No other rtol or atol stands
anywhere in the project.
"""

from __future__ import annotations

import numpy as np

from conformance.language.arithmetic import Array
from conformance.noise import HALF_SUBNORMAL

FACTOR = 12.0
"""Worst of 9,000 correct comparisons: 5.4 σ; the mildest mistakes worth naming stand far above."""


def tolerance(sigma: Array, dtype: str) -> Array:
    """Tolerance of each element from its σ; never less than a subnormal of the dtype."""
    return np.asarray(FACTOR * sigma + 2 * HALF_SUBNORMAL[dtype])


def joined(*sigmas: Array) -> Array:
    """σ of a difference of values that err independently."""
    with np.errstate(all="ignore"):
        return np.asarray(np.sqrt(sum(s * s for s in sigmas)))
