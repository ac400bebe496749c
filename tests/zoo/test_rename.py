"""Renaming changes names and order, and nothing that a file computes."""

import ast
from pathlib import Path

import numpy as np
import pytest

from zoo.rename import CONTRACT, rename
from zoo.zoo_grading import RIGHT, WRONG, line_of_fault, right_file, wrong_file

HELPERS = '''
"""A file."""
import numpy as np

framework = "numpy"
SCALE = twice(2) if False else 1.0


class Norm:
    gain: float = 1.0

    def __init__(self, weight, eps):
        self.weight, self.eps = weight, eps

    def centred(self, x, *, about=0.0):
        return x - about


class Slots:
    __slots__ = ("held",)

    def __init__(self):
        self.held = 1.0


def twice(x, by=2):
    total = x * by
    return total


def softmax(x, axis):
    """Of x."""
    top = x.max(axis=axis, keepdims=True)
    return twice(x=np.exp(x - top), by=1) / Norm(weight=1, eps=2).centred(x, about=9)


HALF = twice(0.25) * Slots().held
'''


def run(text: str) -> dict[str, object]:
    names: dict[str, object] = {}
    exec(compile(text, "file.py", "exec"), names)  # noqa: S102
    return names


def test_contract_names_stay_and_all_others_go() -> None:
    text = rename(HELPERS).text
    words = {n.id for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Name)}
    assert "def softmax(x, axis):" in text
    assert "framework = 'numpy'" in text
    assert {"np", "framework"} <= words
    assert not words & {"total", "top", "twice", "Norm", "Slots", "SCALE", "HALF", "by"}
    assert not {"gain", "centred", "weight", "eps", "about"} & set(text.replace("(", " ").split())
    assert "keepdims=True" in text


def test_the_result_computes_the_same() -> None:
    x = np.array([[1.0, 2.0], [3.0, 5.0]])
    before, after = (run(text)["softmax"](x, axis=1) for text in (HELPERS, rename(HELPERS).text))  # type: ignore[operator]
    assert np.array_equal(before, after)


def test_definitions_come_in_another_order_and_before_their_first_use() -> None:
    def order(text: str) -> list[str]:
        return [n.name for n in ast.parse(text).body if isinstance(n, ast.FunctionDef | ast.ClassDef)]

    simple = "def softmax(x):\n    return helper(x)\n\ndef rope(x):\n    return x\n\ndef helper(x):\n    return x\n"
    assert order(rename(simple).text)[1:] == ["rope", "softmax"]
    run(rename(HELPERS).text)  # HALF calls twice while the file is imported


def test_seeds_give_other_names() -> None:
    assert rename(HELPERS, 1).text != rename(HELPERS, 2).text


@pytest.mark.parametrize(
    "path", [*map(wrong_file, WRONG), *map(right_file, RIGHT)], ids=lambda path: path.stem
)
def test_no_variable_is_left_and_the_fault_can_be_found(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    new = rename(text)
    ast.parse(new.text)
    if path.parent.name == "wrong":
        assert new.lines[line_of_fault(path)] >= 1
    before, after = variables(text), variables(new.text)
    assert before & after <= CONTRACT


def variables(text: str) -> set[str]:
    """Names bound in functions and comprehensions (fields of a class are attributes, and may be `keys`)."""
    functions = [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.FunctionDef)]
    names = (n for function in functions for n in ast.walk(function) if isinstance(n, ast.Name))
    return {name.id for name in names if isinstance(name.ctx, ast.Store)}
