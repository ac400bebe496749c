"""A number that is right, or another mistake's, at the sizes of one case alone is called neither."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from zoo.zoo_grading import Zoo, broken

ATTENTION = """
import numpy as np

framework = "numpy"


def attention(q, k, v, mask=None, is_causal=False):
    group = q.shape[1] // k.shape[1]
    k, v = (np.repeat(t, group, axis=1) for t in (k, v))
    scores = q @ k.transpose(0, 1, 3, 2) / np.array(NUMBER, q.dtype)
    visible = np.tri(*scores.shape[-2:], k=k.shape[2] - q.shape[2], dtype=bool) if is_causal else True
    visible = visible if mask is None else visible & mask
    scores = np.where(visible, scores, np.array(-1e30, q.dtype))
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights = weights / weights.sum(-1, keepdims=True)
    return weights @ v, weights
"""


@pytest.mark.parametrize("symbols", [("B",), ("Tq",), ("Tk",), ("H",), ("Dh",), ("H", "Dh")], ids="·".join)
def test_a_constant_scale_is_no_formula(symbols: tuple[str, ...], zoo: Zoo, tmp_path: Path) -> None:
    sizes = zoo.pack.cases["attention-plain"].sizes
    number = math.prod(sizes[symbol] for symbol in symbols) ** 0.5
    path = tmp_path / "constant.py"
    path.write_text(ATTENTION.replace("NUMBER", repr(number)), encoding="utf-8")
    red = list(broken(zoo.verdicts(path, diagnosed=True)))
    assert red
    assert {d.mistake for v in red for d in v.judgement.diagnosis} == set()
