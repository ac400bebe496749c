"""Results files made by hand: what a run writes, line by line."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from conformance.results.store import Results, parse_results

Line = dict[str, Any]


def text(en: str, zh: str | None = None) -> dict[str, str]:
    return {"en": en, "zh": en if zh is None else zh}


def run(**more: Any) -> Line:
    return {
        "kind": "run", "schema": 1, "pack": "forward-pass", "pack_version": "0.1.0", "target": "my_model.py",
        "variants": ["minimal"], "dtypes": ["float32"], "seed": 0, "tool_version": "0.1.0",
        "isolation": "own process, memory limit 4096 MB, deadline 10 s",
        "environment": {"platform": "Linux", "target": {"python": "3.11.7", "numpy": "2.1.0"}}, "printed": "",
    } | more  # fmt: skip


def claim(name: str, rung: str = "operation", **more: Any) -> Line:
    return {
        "kind": "claim", "id": name, "rung": rung, "level": "MUST", "statements": ["Q6.4", "Q6.10"], "question": "Q006",
        "title": text(f"Title of {name}", f"{name} 的标题"),
        "says": text("The output is the weighted mix of the values.", "输出是各个值的加权混合。"),
        "equation": None, "tensors": {"z": ["batch", "head", "query", "dv"]},
    } | more  # fmt: skip


def verdict(name: str, rung: str = "operation", given: str = "pass", **more: Any) -> Line:
    return {
        "kind": "verdict", "claim": name, "rung": rung, "level": "MUST", "statements": ["Q6.4", "Q6.10"], "case": "plain",
        "variant": "minimal", "dtype": "float32", "verdict": given, "summary": text("holds", "成立"), "margin": None,
        "close": False, "diagnosis": [], "where": None, "evidence": None, "reproduce": "", "seconds": 0.001,
    } | more  # fmt: skip


SCALE = {
    "mistake": "scale-by-model-width",
    "fit": 0.2,
    "says": text("The scores are divided by √d_model; divide by √Dh.", "分数除以了 √d_model；应除以 √Dh。"),
}
PLACE = {"file": "my_model.py", "line": 41, "text": "s = q @ k.T / np.sqrt(d_model)", "variable": "s"}


def failed(name: str, rung: str = "operation", margin: Any = 1.3e5, **more: Any) -> Line:
    return verdict(
        name, rung, "fail",
        summary=text("`z` at head 1, query 2, key 3 is 0.125, expected 0.75", "`z` 在 head 1, query 2, key 3 处为 0.125，应为 0.75"),
        margin=margin,
        evidence={
            "tensor": "z", "index": {"head": 1, "query": 2, "key": 3}, "got": 0.125, "expected": 0.75,
            "tolerance": 1.5e-06, "arrays": {},
        },
        reproduce="import numpy as np\nprint(output[1, 2, 3])",
    ) | more  # fmt: skip


def end(conforms: bool, first: Line | None = None, **more: Any) -> Line:
    sentence = (
        text("conforms in all it offers: 41 of 57 statements, minimal, float32", "在其提供的范围内全部符合：57 条陈述中的 41 条，minimal，float32")
        if conforms
        else text("does not conform: 4 of 9 verdicts broken", "不符合：9 个判定中有 4 个未通过")
    )  # fmt: skip
    return {
        "kind": "end", "conforms": conforms, "counts": {}, "graded_statements": ["Q6.4"], "testable_statements": 57,
        "first_broken": first, "required_not_graded": [], "sentence": sentence, "seconds": 1.25,
    } | more  # fmt: skip


def passing() -> list[Line]:
    return [
        run(),
        claim("q006.attention"),
        verdict("q006.attention", margin=0.13),
        verdict("q006.attention", case="causal", margin=0.2),
        claim("q005.logits", "model"),
        verdict("q005.logits", "model", margin=0.4),
        end(True),
    ]


def failing() -> list[Line]:
    """Two broken claims of one cause, one that raises, and two reasons for not grading."""
    no_model = text("the target defines no `Model`", "该实现没有定义 `Model`")
    no_rope = text("the target defines no `rope`", "该实现没有定义 `rope`")
    return [
        run(printed="loading\nweights of 3 layers\n"),
        claim("q006.attention", equation="z = dot(weights, values, over=key)"),
        verdict("q006.attention", margin=0.13),
        failed("q006.attention", margin=12.0, case="mild"),
        failed("q006.attention", case="causal", diagnosis=[SCALE], where=PLACE),
        claim("q007.weights"),
        failed("q007.weights", margin="NaN", diagnosis=[SCALE]),
        claim("q005.residual", "layer"),
        verdict(
            "q005.residual", "layer", "error", where={"file": "my_model.py", "line": 50, "text": "return x + a"},
            summary=text("it raised ValueError: shapes (3,4) and (5,4)", "抛出异常 ValueError：shapes (3,4) and (5,4)"),
        ),
        claim("q005.logits", "model"),
        verdict("q005.logits", "model", "unsupported", summary=no_model),
        claim("q005.causal", "model"),
        verdict("q005.causal", "model", "unsupported", summary=no_model),
        verdict("q005.causal", "model", "unsupported", summary=no_model, case="long"),
        claim("q005.rope"),
        verdict("q005.rope", given="unsupported", summary=no_rope),
        end(False, {"rung": "operation", "claim": "q006.attention", "tensor": "z"}),
    ]  # fmt: skip


FLOW = [
    {"tensor": name, "axes": axes.split(), "equation": equation, "from": sources.split(), "says": text(f"of {name}", f"{name} 的说明")}
    for name, axes, equation, sources in (
        ("x", "batch query model", "", ""),
        ("q", "batch head query dh", "dot(x, w_q, over=model)", "x"),
        ("k", "batch head key dh", "dot(x, w_k, over=model)", "x"),
        ("weights", "batch head query key", "softmax(dot(q, k, over=dh), over=key)", "q k"),
        ("z", "batch head query dv", "dot(weights, values, over=key)", "weights"),
        ("y", "batch query model", "x + z", "x z"),
    )
]  # fmt: skip
"""What a run line says of a layer."""


def drawn() -> list[Line]:
    """A run with a drawing and with arrays: `weights` is right, `z` is wrong."""
    arrays = {"axes": ["head", "query", "dv"], "fixed": {"batch": 1}, "got": [[[1, 2], [3, "NaN"]]] * 2, "expected": [[[1, 2], [3, 4]]] * 2}  # fmt: skip
    seen = {"tensor": "layers.1.z", "index": {"batch": 1, "head": 1, "query": 1, "dv": 1}, "got": "NaN", "expected": 4, "tolerance": 1e-6, "arrays": arrays}  # fmt: skip
    return [
        run(flow=FLOW),
        claim("q007.weights", equation="weights = softmax(scores, over=key)", question="Q007"),
        verdict("q007.weights"),
        claim("q006.z", "layer", equation="z = dot(weights, values, over=key)", level="SHOULD"),
        failed("q006.z", "layer", evidence=seen),
        claim("q006.y", "layer", equation="y = x + z"),
        verdict("q006.y", "layer", "unsupported"),
        end(False, {"rung": "layer", "claim": "q006.z", "tensor": "z"}),
    ]


ESCAPE, RIGHT_TO_LEFT, ISOLATE = "\x1b]0;owned\x07\x1b[2J", "\u202e", "\u2066"
HOSTILE = (
    f"<script>alert(1)</script></pre></code></details>&amp;<img src=x onerror=alert(2)> {ESCAPE} {RIGHT_TO_LEFT}txt.exe{ISOLATE}"
    "\u2028\u0085 `tick` ```` @everyone #1 GH-2 https://evil.example www.evil.example [a](javascript:alert(3)) | **bold** $x$"
    " {{ 7*7 }} {% raw %} \ufeff\u200b\U000e0041 \ud800 " + "Z" + "\u0301" * 50
)
"""Everything at once that somebody could write into a name."""


def hostile(filler: str = "") -> list[Line]:
    """A run in which every text that a submission can choose is hostile."""
    bad = HOSTILE + filler
    place = {"file": bad, "line": 3, "text": bad, "variable": bad}
    found = [{"mistake": bad, "fit": 1.0, "says": text(bad)}]
    seen = {"tensor": bad, "index": {bad: 3}, "got": bad, "expected": "NaN", "tolerance": 1.0, "arrays": {}}
    return [
        run(flow=[{"tensor": name, "axes": [bad], "equation": bad, "from": [bad, "z"], "says": text(bad)} for name in ("z", bad)], target=bad, isolation=bad, printed=bad + "\n" + bad, environment={bad: bad, "a": {bad: bad}}, notes=[bad]),
        claim("q006.attention", title=text(bad), says=text(bad), equation=bad, statements=[bad], question=bad),
        failed("q006.attention", summary=text(bad), case=bad, variant=bad, diagnosis=found, where=place, evidence=seen, reproduce=bad),
        claim("q005.residual", "layer"),
        verdict("q005.residual", "layer", "error", summary=text(bad), where=place, reproduce=bad),
        verdict("q005.other", "layer", "unsupported", summary=text(bad)),
        verdict("q005.waived", "layer", "waived", summary=text(bad)),
        end(
            False, {"rung": "operation", "claim": "q006.attention", "tensor": bad}, sentence=text(bad),
            cause=text(bad),
            causes=[{"mistakes": [bad], "says": text(bad), "where": place, "claims": ["q006.attention"], "verdicts": 1}],
            waivers=[{"claim": bad, "reason": bad, "expires": "2027-01-31", "state": "used", "verdicts": 1}],
        ),
    ]  # fmt: skip


def results(lines: Sequence[Mapping[str, Any]]) -> Results:
    return parse_results((json.dumps(line) for line in lines), "results.jsonl")


def save(folder: Path, lines: Sequence[Mapping[str, Any]]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "results.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


ALONG_LAYERS = {"over": "layer", "tensors": ["layers.0.y", "layers.1.y", "layers.2.y", "logits"], "margins": [0.2, 5e4, 3e4, "Infinity"], "local": False}  # fmt: skip
OWN_STAGES = {"over": "layer", "tensors": ["layers.0.z", "layers.1.z", "layers.2.z"], "margins": [0.1, 8e5, None], "local": True}  # fmt: skip
ALONG_POSITIONS = {
    "over": "position", "tensors": ["logits"], "margins": [0.1, 0.2, 400, None, 2e3], "local": False, "calls": [2, 1, 2],
    "at_once": [0.1, 0.1, 0.2, 0.1, 0.1],
}  # fmt: skip


def layered() -> list[Line]:
    """A model of three layers whose second is wrong, and whose cache is as well."""
    lines = drawn()
    return [
        *lines[:-1],
        claim("q005.logits", "model", check="golden", equation="logits = Model(config, params).forward(tokens)"),
        failed("q005.logits", "model", profiles=[ALONG_LAYERS], evidence={**lines[4]["evidence"], "tensor": "logits", "arrays": {}}),
        claim("q006.z-everywhere", "model", equation="z = dot(weights, values, over=key)"),
        failed("q006.z-everywhere", "model", profiles=[OWN_STAGES], evidence={**lines[4]["evidence"], "arrays": {}}),
        claim("q005.decode", "decode"),
        failed("q005.decode", "decode", profiles=[ALONG_POSITIONS]),
        lines[-1],
    ]  # fmt: skip
