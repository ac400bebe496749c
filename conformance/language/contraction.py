"""A contraction of two arrays by matrix product: what `einsum` does, planned once for each form."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class _Plan:
    left: tuple[int, ...]
    right: tuple[int, ...]
    batch: int
    left_free: int
    right_free: int
    summed: int
    out: tuple[int, ...]


@lru_cache(maxsize=1024)
def _plan(spec: str) -> _Plan:
    operands, out = spec.split("->")
    a, b = operands.split(",")
    batch = [x for x in a if x in b and x in out]
    summed = [x for x in a if x in b and x not in out]
    a_free = [x for x in a if x not in b]
    b_free = [x for x in b if x not in a]
    made = batch + a_free + b_free
    return _Plan(
        tuple(a.index(x) for x in batch + a_free + summed),
        tuple(b.index(x) for x in batch + summed + b_free),
        len(batch),
        len(a_free),
        len(b_free),
        len(summed),
        tuple(made.index(x) for x in out),
    )


def contract(spec: str, a: Array, b: Array) -> Array:
    """`np.einsum(spec, a, b)` where every letter of one operand alone is kept.

    Batch axes may broadcast from size 1. The sum runs in the dtype of the operands.
    """
    plan = _plan(spec)
    left, right = a.transpose(plan.left), b.transpose(plan.right)
    n, m = plan.batch, plan.batch + plan.left_free
    free_a, summed = left.shape[n:m], left.shape[m:]
    free_b = right.shape[n + plan.summed :]
    k = prod(summed)
    product = np.matmul(
        left.reshape(*left.shape[:n], prod(free_a), k), right.reshape(*right.shape[:n], k, prod(free_b))
    )
    # As one tuple, since a sum over all axes leaves an empty shape.
    return np.asarray(product.reshape((*product.shape[:n], *free_a, *free_b)).transpose(plan.out))
