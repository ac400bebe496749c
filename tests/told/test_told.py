"""What is said in English alone is known in Chinese as well: each sentence of the code that says it, found in its source."""

import ast
import re
from pathlib import Path

import pytest

from conformance.sentences import SENTENCES
from conformance.told import LONGEST, told

ROOT = Path(__file__).resolve().parents[2]
FIELD = re.compile(r"\{(\w+)\}")
CHINESE = re.compile(r"[\u4e00-\u9fff]")


@pytest.mark.parametrize(
    ("english", "chinese"),
    [
        ("it defines no `ffn`; is `fnn` meant to be it?", "它没有定义 `ffn`；`fnn` 是不是它？"),
        ("a.py: it raised ValueError while it was imported (/x/a.py, line 1): no", "a.py：导入时抛出 ValueError（/x/a.py，第 1 行）：no"),
        ("exited with status 3 in the middle of a call", "在调用途中以状态 3 退出"),
        ("`f` is called as f(x=…), by keyword; this one is f(y): it has no `x`, it requires `y`", "`f` 按关键字调用，形式为 f(x=…)；这里的是 f(y)：缺少参数 `x`，要求参数 `y`"),
        ("it raised NotImplementedError: the graph has no input for a mask", "抛出了 NotImplementedError：计算图没有掩码输入"),
        ("it raised NotImplementedError: later", "抛出了 NotImplementedError：later"),
        ("an int", "一个 int"),
        ("its ffn, bias could not be read", "未能读出其 ffn, bias"),
        ("its norm could not be read: If (once) is not read", "未能读出其 norm：没有读取 If (once)"),
        ("layers.0.attention.w_q, which Add makes", "layers.0.attention.w_q 由 Add 得出"),
        # What nobody here says stays as it is.
        ("", ""),
        ("shapes (3,4) and (5,4) not aligned", "shapes (3,4) and (5,4) not aligned"),
        ("x" * (LONGEST + 1), "x" * (LONGEST + 1)),
        ("a: " * 900, "a: " * 900),
    ],
)  # fmt: skip
def test_a_sentence_is_known_whatever_stands_in_it(english, chinese):
    assert told(english).en == english
    assert told(english).zh == chinese


def test_both_halves_of_a_sentence_have_the_same_fields():
    for english, chinese in SENTENCES:
        assert set(FIELD.findall(english)) >= set(FIELD.findall(chinese)), english
        # Two fields without anything between them could not be told apart.
        assert not re.search(r"\}\{", english), english
    assert len({english for english, _ in SENTENCES}) == len(SENTENCES)


def test_no_sentence_stands_behind_one_that_takes_it():
    for english, chinese in SENTENCES:
        filled = FIELD.sub(
            lambda field: {"what": "an int", "how": "memory ran out"}.get(field[1], "7"), english
        )
        expected = FIELD.sub(
            lambda field: {"what": "一个 int", "how": "内存耗尽"}.get(field[1], "7"), chinese
        )
        assert told(filled).zh == expected


# -- the code that says them ---------------------------------------------------------------------------

SAYS = {
    "conformance/worker": {"Refused", "Ended", "NotATensor", "Impossible", "NoDevice", "note", "_unusable"},
    "conformance/session": {"NotOffered", "Crashed", "TimedOut", "TargetError", "EngineError", "Gone"},
    "conformance/onnx": {"Unreadable", "ReadingFailed", "NotRead"},
    "conformance/onnx/declaring.py": {"append"},
    "conformance/plan": {"VariantError"},
    "conformance/results/store.py": {"append"},
    "adapters/cs336.py": {"NotImplementedError", "TypeError"},
    "adapters/onnx_model.py": {"NotImplementedError"},
    "adapters/onnx_operation.py": {"NotImplementedError"},
    "adapters/pytorch.py": {"NotImplementedError"},
    "adapters/module_map": {"NotImplementedError", "MapError", "NoVariant"},
    "conformance/onnx/rope.py": {"Rope"},
    "conformance/onnx/visibility.py": {"Visibility"},
}  # fmt: skip
"""Where sentences for a report are made, and by what calls; hints of what to do are not among them."""
IN_NO_REPORT = {ROOT / "adapters/module_map/draft.py"}
"""What `conformance new --inspect` says, on the terminal alone."""
EXCEPT = {
    "(logits, cache)",
    "(logits, None)",
    "the interpreter {} {}",
    "the worker failed; this is a fault of transformer-conformance, not of the submission:\n{}",
}
"""Code; a sentence whose end is known elsewhere; what stands in no report."""

FILLINGS = (
    "7",
    "",
    "1 s",
    "an int",
    "a newer",
    "memory ran out",
    "closed the connection to the runner",
    "its process closed the connection to the runner",
    "the file's `variant`",
    "did you mean 'llama'?",
    "none of its inputs is known as the tokens",
    "inputs",
)
"""What a field may hold: a word, or a sentence that has no field of its own, which would take what follows."""


def templates(node):
    """The texts that an expression may be, with `{}` for what is filled in."""
    match node:
        case ast.Constant(value=str() as text):
            return [text]
        case ast.JoinedStr(values=values):
            found = [""]
            for value in values:
                inner = templates(value.value) if isinstance(value, ast.FormattedValue) else templates(value)
                found = [a + b for a in found for b in (inner or ["{}"])]
            return found
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            return [a + b for a in templates(left) or ["{}"] for b in templates(right) or ["{}"]]
        case ast.IfExp(body=body, orelse=orelse):
            return [*templates(body), *templates(orelse)]
        case ast.BoolOp(values=[*_, last]):
            return ["", *templates(last)]
    return []


def sentences():
    for place, names in SAYS.items():
        path = ROOT / place
        for file in sorted({*path.glob("*.py")} - IN_NO_REPORT if path.is_dir() else [path]):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if not isinstance(node, ast.Call):
                    continue
                name = getattr(node.func, "id", getattr(node.func, "attr", ""))
                if name not in names:
                    continue
                if name == "Ended":
                    given = [k.value for k in node.keywords if k.arg == "reason"]
                elif name == "TimedOut":
                    given = node.args[1:2]
                elif name == "Visibility":
                    given = [k.value for k in node.keywords if k.arg == "example"]
                elif name == "Rope":
                    given = node.args[3:4]
                elif name == "_unusable":
                    given = node.args
                else:
                    given = node.args[:1]
                for expression in given:
                    for text in templates(expression):
                        if " " in re.sub(r"\{\}|\W", " ", text).strip():
                            yield f"{file.relative_to(ROOT)}:{node.lineno}", text


def test_every_sentence_that_the_code_says_is_known():
    found = list(sentences())
    assert len(found) > 60
    unknown = []
    for at, text in found:
        if text in EXCEPT:
            continue
        ways = (
            text.replace("{}", first, 1).replace("{}", second) for first in FILLINGS for second in FILLINGS
        )
        if not any(CHINESE.search(told(way).zh) and told(way).zh != way for way in ways):
            unknown.append(f"{at}  {text}")
    assert not unknown, "\n".join(unknown)
