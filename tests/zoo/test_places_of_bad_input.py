"""However a submission is written, looking for the line changes no verdict, and the line is true or there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from zoo.zoo_grading import Zoo, broken

HEAD = """
import functools
import os
import sys
import tempfile
import threading
import numpy as np

framework = "numpy"
dtype = "float32"
"""
SCORES = "s = np.einsum(\"bhqd,bhkd->bhqk\", q, k) / q.shape[-1]"
BODY = f"""
    k, v = (np.repeat(a, q.shape[1] // k.shape[1], 1) for a in (k, v))
    {SCORES}
    if is_causal:
        s = np.where(np.tri(q.shape[2], k.shape[2], k.shape[2] - q.shape[2], dtype=bool), s, -1e30)
    if mask is not None:
        s = np.where(mask, s, -1e30)
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True) @ v
"""
SIGNATURE = "(q, k, v, mask=None, is_causal=False):"
PLAIN = f"{HEAD}\ndef attention{SIGNATURE}{BODY}"
SOURCES = {
    "a source that deletes itself": f"{PLAIN}\nos.unlink(__file__)\n",
    "generated code": f"{HEAD}\nexec({f'def attention{SIGNATURE}{BODY}'!r})\n",
    "a decorator that wraps": f"""{HEAD}
def checked(f):
    @functools.wraps(f)
    def inner(*args, **kwargs):
        return f(*args, **kwargs)
    return inner

@checked
def attention{SIGNATURE}{BODY}""",
    "a decorator that passes by position": f"""{HEAD}
def plain(f):
    def inner(q, k, v, mask=None, is_causal=False):
        return f(q, k, v, mask, is_causal)
    return inner

@plain
def attention{SIGNATURE}{BODY}""",
    "callbacks from C": PLAIN.replace(
        "e = np.exp(s - s.max(-1, keepdims=True))",
        "e = np.apply_along_axis(lambda r: np.vectorize(np.exp)(r - max(r, key=float)), -1, s)",
    ),
    "memory-mapped arrays": PLAIN.replace(
        "    e = np",
        """    with tempfile.TemporaryFile() as file:
        mapped = np.memmap(file, s.dtype, "w+", shape=s.shape)
        mapped[:] = s
        s = np.array(mapped)
        del mapped
    e = np""",
    ),
    "it looks for a trace": PLAIN.replace("    e = np", "    seen = sys.gettrace()\n    e = np"),
    "recursion": f"""{HEAD}
def attention(q, k, v, mask=None, is_causal=False, depth=50):
    if depth:
        return attention(q, k, v, mask, is_causal, depth - 1)
    return mixed(q, k, v, mask, is_causal)

def mixed{SIGNATURE}{BODY}""",
    "a thread": f"""{HEAD}
def attention(q, k, v, mask=None, is_causal=False):
    found = []
    thread = threading.Thread(target=lambda: found.append(mixed(q, k, v, mask, is_causal)))
    thread.start()
    thread.join()
    return found[0]

def mixed{SIGNATURE}{BODY}""",
    "a generator": f"""{HEAD}
def attention(q, k, v, mask=None, is_causal=False):
    return next(mixed(q, k, v, mask, is_causal))

def mixed{SIGNATURE}{BODY}""".replace("    return e / e", "    yield e / e"),
    "a long loop": PLAIN.replace("    e = np", "    for i in range(30000):\n        n = np.arange(i, i + 3)\n    e = np"),
}
NOT_SHOWN = ("generated code", "a source that deletes itself")


@pytest.mark.parametrize("name", SOURCES)
def test_verdicts_are_the_same_and_the_line_is_true(name: str, zoo: Zoo, tmp_path: Path) -> None:
    path = tmp_path / "submission.py"
    claims = ["q006.attention"]
    path.write_text(SOURCES[name], encoding="utf-8")
    before = zoo.verdicts(path, claims)
    path.write_text(SOURCES[name], encoding="utf-8")
    after = zoo.verdicts(path, claims, diagnosed=True)
    assert [(v.case, v.judgement.verdict, v.judgement.margin) for v in before] == [
        (v.case, v.judgement.verdict, v.judgement.margin) for v in after
    ]
    red = list(broken(after))
    assert red
    for verdict in red:
        assert "scale-by-head-width" in [d.mistake for d in verdict.judgement.diagnosis]
        place = verdict.judgement.place
        if name in NOT_SHOWN and (place is None or not place.text):
            continue
        assert place is not None
        assert place.text.startswith("s = np.einsum(")
