"""Places without a name: the line, the last right tensor, the first NaN; and nothing where nothing is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.locations import bundled
from conformance.results.records import Judgement
from zoo.zoo_grading import Zoo, broken

ATTENTION = """
import numpy as np

framework = "numpy"
dtype = "float32"
variant = "minimal"


def multi_head_attention(x, params, config, attention_mask=None):
    b, t, _ = x.shape
    seen = np.tri(t, dtype=bool)[None]
    if attention_mask is not None:
        seen = seen & attention_mask[:, None, :]
    heads = []
    for h in range(config.n_heads):
        s = slice(h * config.d_head, (h + 1) * config.d_head)
        q, k, v = (x @ params[w][:, s] for w in ("w_q", "w_k", "w_v"))
        a = np.where(seen, q @ k.transpose(0, 2, 1) / config.d_head**0.5, FILL)
        a = np.exp(a - a.max(-1, keepdims=True))
        heads.append(a / a.sum(-1, keepdims=True) @ v)
    merged = np.concatenate(HEADS, -1)
    return merged @ params["w_o"]
"""


def first_failure(zoo: Zoo, path: Path, text: str, claim: str) -> tuple[Judgement, list[str]]:
    """The first failed verdict of a claim on a source text, and the text's lines."""
    path.write_text(text, encoding="utf-8")
    red = [v for v in broken(zoo.verdicts(path, [claim], diagnosed=True)) if v.judgement.verdict == "fail"]
    return red[0].judgement, text.split("\n")


def test_heads_in_reverse_have_no_name_but_a_line(zoo: Zoo, tmp_path: Path) -> None:
    text = ATTENTION.replace("FILL", "-1e30").replace("HEADS", "heads[::-1]")
    failure, lines = first_failure(zoo, tmp_path / "reversed.py", text, "q006.multi-head-attention")
    assert failure.diagnosis == ()
    place = failure.place
    assert place is not None
    assert place.line is not None
    assert lines[place.line - 1].strip() == "merged = np.concatenate(heads[::-1], -1)"
    assert (place.variable, place.expected) == ("merged", "concat")
    assert place.last_right is not None
    assert (place.last_right.variable, place.last_right.expected) == ("heads[0]", "z")


def test_the_same_with_heads_in_order_has_neither(zoo: Zoo, tmp_path: Path) -> None:
    path = tmp_path / "right.py"
    path.write_text(ATTENTION.replace("FILL", "-1e30").replace("HEADS", "heads"), encoding="utf-8")
    verdicts = zoo.verdicts(path, ["q006.multi-head-attention"], diagnosed=True)
    assert verdicts
    assert all(v.judgement.verdict == "pass" and v.judgement.place is None for v in verdicts)


def test_the_first_nan_has_its_line_and_what_it_was_made_of(zoo: Zoo, tmp_path: Path) -> None:
    # inf - inf is NaN, two statements before anything comes back.
    text = ATTENTION.replace("FILL", "np.inf").replace("HEADS", "heads")
    failure, lines = first_failure(zoo, tmp_path / "nan.py", text, "q006.multi-head-attention")
    made = next(i for i, line in enumerate(lines, 1) if "np.inf" in line)
    assert f"first appears in `a`, line {made}: " in failure.summary.en
    assert f"最早出现在 `a`，第 {made} 行" in failure.summary.zh
    assert f"`q` (line {made - 1}, " in failure.summary.en


def test_inputs_that_are_changed_in_place_have_their_line(zoo: Zoo) -> None:
    from zoo.zoo_grading import line_of_fault, wrong_file

    path = wrong_file("softmax_in_place")
    red = list(broken(zoo.verdicts(path, diagnosed=True)))
    assert red
    assert {v.judgement.place.line for v in red if v.judgement.place} == {line_of_fault(path)}


DROPOUT = """
import numpy as np

framework = "numpy"
dtype = "float32"
variant = "minimal"
generator = np.random.default_rng(0)


def ffn(x, w_1, b_1, w_2, b_2):
    bias = b_1 + np.zeros_like(b_1)
    hidden = np.maximum(x @ w_1 + bias, 0)
    dropped = hidden * (generator.random(hidden.shape) > 0.1) / 0.9
    return dropped @ w_2 + b_2
"""


def test_dropout_is_placed_where_it_is_and_not_at_a_part_before_it(zoo: Zoo, tmp_path: Path) -> None:
    failure, lines = first_failure(zoo, tmp_path / "dropout.py", DROPOUT, "q008.ffn")
    assert failure.diagnosis == ()
    assert failure.place is not None
    assert failure.place.line is not None
    assert lines[failure.place.line - 1].strip().startswith("dropped =")


CONTEXT = ATTENTION.replace("    heads = []", "    c = x\n    heads = []").replace(
    "(x @ params[w]", "(c @ params[w]"
)
LAYER = (
    CONTEXT.replace("FILL", "-1e30").replace("HEADS", "heads")
    + """

def norm(x, params, name, eps):
    centred = x - x.mean(-1, keepdims=True)
    over = np.sqrt((centred * centred).mean(-1, keepdims=True) + eps)
    return centred / over * params[name + ".weight"] + params[name + ".bias"]


def ffn_of(x, params):
    c = x
    return np.maximum(c @ params["ffn.w_1"], 0) @ params["ffn.w_2"]


def block(x, params, config, attention_mask=None):
    own = {key[10:]: value for key, value in params.items() if key.startswith("attention.")}
    n = norm(x, params, "norm1", config.norm_eps)
    u = x + multi_head_attention(FIRST, own, config, attention_mask)
    m = norm(u, params, "norm2", config.norm_eps)
    return u + ffn_of(SECOND, params)
"""
)


@pytest.mark.parametrize(("given", "expected"), [(("x", "m"), "norm1"), (("n", "u"), "norm2")])
def test_what_a_function_is_given_is_called_by_the_layers_name(
    zoo: Zoo, tmp_path: Path, given: tuple[str, str], expected: str
) -> None:
    """Each function calls its argument `x`, which of the layer is the input, and that is never wrong."""
    text = LAYER.replace("FIRST", given[0]).replace("SECOND", given[1])
    failure, _ = first_failure(zoo, tmp_path / "layer.py", text, "q005.layer")
    assert failure.place is not None
    assert failure.place.expected == expected


REFERENCE = (bundled("adapters") / "numpy_reference.py").read_text(encoding="utf-8")
FORGIVEN = {
    "attention": ('params["w_o"] + params.get("b_o", 0)', 'params["w_o"] + params.get("b_o", -1)', "q005.layer", "attn_out"),
    "network": ('params["w_2"] + params.get("b_2", 0)', 'params["w_2"] + params.get("b_2", 3)', "q005.layer", "ffn_out"),
    "embedding": ('table[tokens]', 'table[tokens] + 1', "q*", "h"),
}  # fmt: skip
"""A number added to every feature, which the LayerNorm behind it takes away again; no known mistake."""


@pytest.mark.parametrize("fault", FORGIVEN)
def test_what_a_norm_forgives_is_shown_where_it_is_made(fault: str, zoo: Zoo, tmp_path: Path) -> None:
    right, wrong, claim, variable = FORGIVEN[fault]
    assert REFERENCE.count(right) == 1
    text = REFERENCE.replace(right, wrong).replace(
        'variant = ["minimal", "gpt2", "llama", "vaswani"]', 'variant = "minimal"'
    )
    failure, lines = first_failure(zoo, tmp_path / "forgiven.py", text, claim)
    assert failure.diagnosis == ()
    assert failure.place is not None
    assert failure.place.line is not None
    assert wrong in lines[failure.place.line - 1]
    assert failure.place.variable == variable
