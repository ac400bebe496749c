"""The files of a program: closed forms, and errors at the line at fault."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from conformance.language.errors import PackError, PackErrors
from conformance.language.expression import parse as parse_expression
from conformance.language.program import Program
from conformance.locations import bundled
from conformance.pack import claim_files, program_files
from conformance.pack.program_check import program_faults
from conformance.pack.yaml_source import Source, parse

AXES = "axes:\n  query: {size: Tq}\n  model: {size: D, config: d_model}\n"
TENSORS = "tensors: {}\n"
FUNCTIONS = """functions:
  f:
    given:
      x: query model
    let:
      y: x * 2
    is: y
    gives: query model
"""
MISTAKES = """mistakes:
  - id: slip
    of: f
    replace: {y: x * 3}
    says: {en: A slip., zh: 失误。}
"""


def load(
    functions: str = FUNCTIONS, axes: str = AXES, tensors: str = TENSORS, mistakes: str = MISTAKES
) -> Program:
    return program_files.program(
        parse(axes, "axes.yaml"),
        parse(tensors, "tensors.yaml"),
        [parse(functions, "program.yaml")],
        [parse(mistakes, "mistakes.yaml")],
    )


def fault(**files: str) -> str:
    with pytest.raises(PackError) as caught:
        load(**files)
    return str(caught.value)


def test_what_is_right() -> None:
    program = load()
    assert str(program.functions["f"].let[0].at) == "program.yaml:6"
    assert str(program.functions["f"].result.at) == "program.yaml:7"
    assert str(program.mistakes["slip"].at) == "mistakes.yaml:2"


def test_alternatives_stand_where_they_stand() -> None:
    equation = (
        load(
            FUNCTIONS.replace(
                "      y: x * 2\n", "      y:\n        by: norm\n        a: x\n        b: 2 * x\n"
            )
        )
        .functions["f"]
        .let[0]
    )
    assert [str(e.at) for e in equation.alternatives.values()] == ["program.yaml:8", "program.yaml:9"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("functions:", "function:", "program.yaml:1: unknown section 'function' (did you mean 'functions'?)"),
        ("    gives: query model\n", "", "program.yaml:2: 'gives' is missing in functions.f"),
        ("    gives:", "    givs:", "program.yaml:8: unknown key 'givs' in functions.f (did you mean 'gives'?)"),
        ("gives: query model", "gives: qery model", "program.yaml:8: unknown axis 'qery' (did you mean 'query'?)"),
        ("gives: query model", "gives: query query", "program.yaml:8: an axis stands twice in 'query query'"),
        ("gives: query model", "gives: [query]", "program.yaml:8: a text is expected, not a list in functions.f.gives"),
        ("      x: query model", "      x: {axs: query}", "program.yaml:4: unknown key 'axs' in functions.f.given.x (did you mean 'axes'?)"),
        ("      x: query model", "      x: {axes: query, kind: reel}", "program.yaml:4: 'reel' is not one of bool, int, real in functions.f.given.x.kind (did you mean 'real'?)"),
        ("      x: query model", "      x: 3", "program.yaml:4: a text or a mapping is expected, not a whole number in functions.f.given.x"),
        ("      y: x * 2", "      y: [x]", "program.yaml:6: "),
        ("      y: x * 2", "      y: {pre: x}", "program.yaml:6: 'y' needs 'by:' (a choice) or 'is:'"),
        ("      y: x * 2", "      y: {by: norm}", "program.yaml:6: 'y' has no expression for any value of norm"),
        ("      y: x * 2", "      y: {is: x, at_least: float64}", "program.yaml:6: at_least: float64 is not known; only float32 is"),
        ("      y: x * 2", "      y: x *", "program.yaml:6: 'x *' is not an expression: invalid syntax"),
        ("      y: x * 2", "      y: x and x", "program.yaml:6: 'and' and 'or' are written '&' and '|' in 'x and x'"),
        ("      y: x * 2", "      y: not x", "program.yaml:6: 'not' is written '~' in 'not x'"),
        ("      y: x * 2", "      y: 1 < x < 2", "program.yaml:6: a chained comparison (write it as two, joined by '&') in '1 < x < 2'"),
        ("      y: x * 2", "      y: x @ x", "program.yaml:6: the operator MatMult is not part of the language in 'x @ x'"),
        ("      y: x * 2", "      y: x[0]", "program.yaml:6: Subscript is not part of the language in 'x[0]'"),
        ("      y: x * 2", "      y: x.T()", "program.yaml:6: only named functions can be called in 'x.T()'"),
        ("      y: x * 2", "      y: 'lambda: x'", "program.yaml:6: Lambda is not part of the language in 'lambda: x'"),
        ("      y: x * 2", "      y: f(*x)", "program.yaml:6: a star argument in 'f(*x)'"),
    ],
)  # fmt: skip
def test_functions(old: str, new: str, message: str) -> None:
    assert FUNCTIONS.count(old) == 1
    assert fault(functions=FUNCTIONS.replace(old, new)).startswith(message)


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        ("axes: [query]", "axes.yaml:1: 'axes' must be a mapping of names"),
        ("other: {}", "axes.yaml:1: unknown section 'other'"),
        ("", "axes.yaml: a mapping 'axes:' is expected"),
        (AXES + "  key: {size: Tq}\n", "axes.yaml:4: the axes 'query' and 'key' share the size Tq"),
        (
            AXES + "  both: {parts: [query, modl]}\n",
            "axes.yaml:4: unknown axis 'modl' (did you mean 'model'?)",
        ),
        (AXES + "  sample: {size: S}\n", "axes.yaml:4: the axis name 'sample' is taken by the engine"),
        (AXES + "  key: {siz: Tk}\n", "axes.yaml:4: unknown key 'siz' in axes.key (did you mean 'size'?)"),
        (
            AXES + "  key: {length: two}\n",
            "axes.yaml:4: a whole number or nothing is expected, not a text in axes.key.length",
        ),
    ],
)
def test_axes(axes: str, message: str) -> None:
    assert fault(axes=axes).startswith(message)


def test_a_tensor_of_an_unknown_function() -> None:
    tensors = "tensors:\n  y: {axes: query model, of: g f, says: {en: y, zh: y}}\n"
    assert fault(tensors=tensors).startswith("tensors.yaml:2: 'y' is said to be of an unknown function 'g'")


def test_a_text_needs_both_languages() -> None:
    tensors = "tensors:\n  y: {axes: query model, of: f, says: {en: y}}\n"
    assert fault(tensors=tensors) == "tensors.yaml:2: 'zh' is missing in tensors.y.says"
    assert fault(tensors=tensors.replace("en: y", "en: y, zhh: y")).startswith(
        "tensors.yaml:2: unknown key 'zhh' in tensors.y.says (did you mean 'zh'?)"
    )


@pytest.mark.parametrize("text", ["(" * 500 + "x" + ")" * 500, "-" * 100000 + "x", "x\0"])
def test_an_expression_that_is_too_much(text: str) -> None:
    with pytest.raises(PackError, match="is not an expression"):
        parse_expression(text)


def test_a_function_twice() -> None:
    sources = [parse(FUNCTIONS, "one.yaml"), parse(FUNCTIONS, "two.yaml")]
    with pytest.raises(PackError, match=r"two.yaml:2: the function 'f' stands at one.yaml:2 already"):
        program_files.program(parse(AXES, "axes.yaml"), parse(TENSORS, "tensors.yaml"), sources)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("    of: f\n", "    of: g\n", "mistakes.yaml:2: the mistake 'slip' patches an unknown function 'g'"),
        (
            "replace: {y: x * 3}",
            "replace: {g.y: x * 3}",
            "mistakes.yaml:2: the mistake 'slip' patches an unknown function 'g'",
        ),
        ("replace: {y: x * 3}", "replace: {y: x *}", "mistakes.yaml:4: 'x *' is not an expression"),
        (
            "replace: {y: x * 3}",
            "replace: y",
            "mistakes.yaml:4: a mapping is expected, not a text in mistakes.0.replace",
        ),
        (
            "  - id: slip\n",
            "  - id: slip\n    idd: slip\n",
            "mistakes.yaml:3: unknown key 'idd' in mistakes.0 (did you mean 'id'?)",
        ),
        ("mistakes:", "mistake:", "mistakes.yaml:1: unknown section 'mistake'"),
    ],
)
def test_mistakes(old: str, new: str, message: str) -> None:
    assert fault(mistakes=MISTAKES.replace(old, new)).startswith(message)


def test_several_faults_are_one_a_line() -> None:
    errors = PackErrors([PackError("first"), PackError("second", hint="do this")])
    assert str(errors) == "<pack>: first\n<pack>: second (do this)"


# -- whatever is in the files -------------------------------------------------------------------------

PACK = bundled("spec") / "forward-pass"
TOUCHED = ["axes.yaml", "tensors.yaml", "variants.yaml", "operations.yaml"]
WORDS = [
    "query",
    "model",
    "head",
    "x",
    "q",
    "scores",
    "softmax",
    "norm",
    "by",
    "pre",
    "else",
    "is",
    "let",
    "0",
    "-1",
    "1.5",
    "true",
    "~",
    "[]",
    "{}",
    "null",
    "inf",
    "over=key",
    ",",
    "&",
    "**",
]


def _texts() -> dict[str, str]:
    paths = [*(PACK / name for name in TOUCHED), *(PACK / "program").glob("*.yaml")]
    return {str(path.relative_to(PACK)): path.read_text(encoding="utf-8") for path in sorted(paths)}


def _spoilt(texts: dict[str, str], chance: random.Random) -> dict[str, str]:
    """One word of one file replaced, cut or removed, or one line removed or doubled."""
    file = chance.choice(sorted(texts))
    text, lines = texts[file], texts[file].split("\n")
    line = chance.randrange(len(lines))
    match chance.randrange(6):
        case 0:
            del lines[line]
            text = "\n".join(lines)
        case 1:
            lines.insert(line, lines[chance.randrange(len(lines))])
            text = "\n".join(lines)
        case _:
            found = chance.choice(list(re.finditer(r"[A-Za-z_]\w*|\d+|[(){},:+*/=-]", text)))
            word = chance.choice([chance.choice(WORDS), found.group()[:-1]])
            text = text[: found.start()] + word + text[found.end() :]
    return {**texts, file: text}


def _check(texts: dict[str, str]) -> tuple[PackError, ...]:
    sources = {file: parse(text, file) for file, text in texts.items()}
    functions: list[Source] = [
        source for file, source in sources.items() if Path(file).parent.name == "program"
    ]
    program = program_files.program(sources["axes.yaml"], sources["tensors.yaml"], functions)
    fields = claim_files.choice_fields(sources["variants.yaml"])
    operations = claim_files.operations(sources["operations.yaml"], program, fields)
    return program_faults(program, operations, fields, claim_files.variants(sources["variants.yaml"], fields))


def test_unspoilt_it_is_sound() -> None:
    assert _check(_texts()) == ()


@pytest.mark.parametrize("seed", range(3))
def test_a_spoilt_pack_is_refused_with_a_place_or_is_still_sound(seed: int) -> None:
    chance, texts = random.Random(seed), _texts()
    for _ in range(12):
        spoilt = _spoilt(texts, chance)
        try:
            errors = _check(spoilt)
        except PackError as error:
            errors = (error,)
        assert all(error.at.file in texts for error in errors)
