"""Values that are no good: every verdict says what came, and nothing of ours is heard on stderr.

The bundled reference is spoilt: all that it returns, and all that it hands to `tap`, goes through
one function. It is graded in this process with warnings as errors, and by the command.
"""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from zoo.zoo_grading import Zoo, told

from conformance.locations import bundled
from conformance.results.records import BROKEN, Verdict

ADAPTER = """
import functools, importlib.util
import numpy as np

_spec = importlib.util.spec_from_file_location("reference", {reference!r})
_reference = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_reference)

framework = "numpy"
dtype = {dtype!r}
variant = "minimal"


def spoilt(y):
    if isinstance(y, tuple):
        return tuple(spoilt(part) for part in y)
    if not isinstance(y, np.ndarray) or y.dtype.kind != "f" or y.ndim < 1:
        return y
    y = y.copy()
    {spoil}
    return y


def spoiling(function):
    @functools.wraps(function)
    def call(*args, **kwargs):
        tap = kwargs.get("tap")
        if tap is not None:
            kwargs["tap"] = lambda name, tensor: tap(name, spoilt(tensor))
        return spoilt(function(*args, **kwargs))

    return call


for _name in ("softmax", "layer_norm", "rms_norm", "rope", "attention", "ffn", "swiglu", "block"):
    globals()[_name] = spoiling(getattr(_reference, _name))
multi_head_attention = spoiling(_reference.multi_head_attention)


class Model:
    def __init__(self, config, params):
        self.model = _reference.Model(config, params)

    def forward(self, tokens, attention_mask=None, positions=None, tap=None):
        heard = None if tap is None else lambda name, tensor: tap(name, spoilt(tensor))
        logits, _ = self.model.forward(tokens, attention_mask, positions, tap=heard)
        return spoilt(logits)
"""

GOLDENS = ("q007.softmax", "q008.layer-norm", "q006.attention", "q008.ffn", "q005.logits")


@dataclass(frozen=True)
class Bad:
    """How values are spoilt, what every golden's verdict then is, and what its summary says."""

    spoil: str
    verdict: str = "fail"
    says: str = "tolerances off"
    dtype: str = "float32"
    everywhere: bool = True


BAD: Mapping[str, Bad] = {
    "NaN in one element": Bad("y[(0,) * y.ndim] = np.nan", says=" is nan, expected "),
    "infinite in one element": Bad("y[(0,) * y.ndim] = np.inf", says=" is inf, expected "),
    "infinite": Bad("y[...] = -np.inf", says=" is -inf, expected "),
    "NaN": Bad("y[...] = np.nan", says=" is nan, expected "),
    "constant": Bad("y[...] = 0.25"),
    "zero": Bad("y[...] = 0"),
    "huge": Bad("y[...] = np.finfo(y.dtype).max"),
    "integer": Bad("y = np.round(y).astype(np.int64)", verdict="error", says="an array of dtype int64"),
    "boolean": Bad("y = y > 0", verdict="error", says="an array of dtype bool"),
    "complex": Bad("y = y + 0j", verdict="error", says="an array of dtype complex64"),
    "of lower dtype": Bad("y = y.astype(np.float16)", says="came as float16, float32 was declared"),
    "of lower dtype than float64": Bad(
        "y = y.astype(np.float32)", says="came as float32, float64 was declared", dtype="float64"
    ),
    "zeros where values are small": Bad("y[np.abs(y) < 0.05] = 0", everywhere=False),
    "reversed": Bad("y = y[..., ::-1]", everywhere=False),
    "rows exchanged": Bad("y = np.roll(y, 1, axis=-min(2, y.ndim))", everywhere=False),
    "without one element": Bad("y = y[..., 1:]", says="has shape"),
}
DIAGNOSED = ("NaN in one element", "infinite", "constant")
"""Looking for a mistake that explains it takes longest."""
HARMLESS = {
    # What a processor that has no subnormal numbers does, and what more precision than declared does.
    "zeros where values are tiny": "y[np.abs(y) < np.finfo(y.dtype).tiny] = 0",
    "of higher dtype": "y = y.astype(np.float64)",
    "not contiguous": "y = np.asfortranarray(y)",
    "negative zeros": "y[y == 0] = -0.0",
}


def adapter(folder: Path, spoil: str, dtype: str = "float32") -> Path:
    path = folder / "spoilt.py"
    reference = str(bundled("adapters") / "numpy_reference.py")
    text = ADAPTER.format(reference=reference, dtype=dtype, spoil=spoil)
    path.write_text(text, encoding="utf-8")
    return path


@cache
def zoo() -> Zoo:
    return Zoo.opened()


def graded(path: Path, claims: Sequence[str] = (), *, diagnosed: bool = False) -> list[Verdict]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return zoo().verdicts(path, claims, diagnosed=diagnosed)


@pytest.mark.parametrize("name", BAD)
def test_the_verdict_says_what_came(name: str, tmp_path: Path) -> None:
    bad = BAD[name]
    verdicts = graded(adapter(tmp_path, bad.spoil, bad.dtype), GOLDENS, diagnosed=name in DIAGNOSED)
    seen = [v for v in verdicts if v.judgement.verdict != "unsupported"]
    assert {v.claim for v in seen} == set(GOLDENS)
    if not bad.everywhere:  # a permutation of one element is none
        seen = [v for v in seen if v.judgement.verdict != "pass"]
        assert {v.claim for v in seen} == set(GOLDENS)
    for verdict in seen:
        judgement = verdict.judgement
        assert judgement.verdict == bad.verdict, told([verdict])
        assert bad.says in judgement.summary.en, told([verdict])
        assert judgement.margin is None or judgement.margin > 1
        assert not math.isnan(judgement.margin or 0.0)


@pytest.mark.parametrize("name", BAD)
def test_no_claim_stumbles_over_it(name: str, tmp_path: Path) -> None:
    """Every kind of claim, on outputs and taps; a fault of ours, or a warning, would be raised."""
    verdicts = graded(adapter(tmp_path, BAD[name].spoil, BAD[name].dtype))
    assert sum(v.judgement.verdict in BROKEN for v in verdicts) > 50
    for verdict in verdicts:
        assert not math.isnan(verdict.judgement.margin or 0.0), told([verdict])
        assert verdict.judgement.summary.en
        assert verdict.judgement.summary.zh


@pytest.mark.parametrize("name", ["NaN", "infinite"])
def test_no_output_passes_that_is_not_finite(name: str, tmp_path: Path) -> None:
    verdicts = graded(adapter(tmp_path, BAD[name].spoil))
    green = {v.claim for v in verdicts if v.judgement.verdict == "pass"}
    kinds = {claim: zoo().pack.claims[claim].kind for claim in green}
    literally = {"q006.no-single-value"} if name == "infinite" else set()  # infinity is at least 0.5
    assert {claim for claim, kind in kinds.items() if kind in ("golden", "holds")} == literally


@pytest.mark.parametrize("name", HARMLESS)
def test_what_is_no_mistake_is_none(name: str, tmp_path: Path) -> None:
    verdicts = graded(adapter(tmp_path, HARMLESS[name]))
    red = [v for v in verdicts if v.judgement.verdict in BROKEN]
    assert not red, told(red)


def no_constant(text: str) -> float:
    raise AssertionError(f"{text} is no JSON")


@pytest.mark.parametrize("name", ["NaN in one element", "infinite", "integer", "constant", "of lower dtype"])
def test_the_command_says_nothing_on_stderr(name: str, tmp_path: Path) -> None:
    bad = BAD[name]
    adapter(tmp_path, bad.spoil, bad.dtype)
    done = subprocess.run(
        [sys.executable, "-W", "always", "-m", "conformance", "run", "spoilt.py", "--select",
         ",".join(GOLDENS), "--format", "json"],
        capture_output=True, text=True, encoding="utf-8", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr == ""
    document = json.loads(done.stdout, parse_constant=no_constant)
    assert document["end"]["conforms"] is False
    summaries = [v["summary"]["en"] for v in document["verdicts"] if v["verdict"] != "unsupported"]
    assert all(bad.says in summary for summary in summaries)
    report = (tmp_path / "conformance-report" / "report.html").read_text(encoding="utf-8")
    assert re.search(r"<html", report)
