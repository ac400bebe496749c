"""Patches of the program: how they are laid over it, and what the check says of them."""

from __future__ import annotations

import pytest

from conformance.language.arithmetic import Float64
from conformance.language.errors import PackError
from conformance.language.evaluate import Reading
from language.small import faults, same, small, tensor

PROGRAM = """
functions:
  norm:
    given: {x: ... model}
    parameters: {weight: model}
    let: {scale: {is: "sqrt(mean(x ** 2, over=model))", at_least: float32}}
    is: x / scale * weight
    gives: ... model
  layer:
    given: {x: query model}
    let:
      before: {by: place, pre: "norm(x, params='norm')"}
      y: {by: place, pre: x + before, post: "norm(x + x, params='norm')"}
    is: y
    gives: query model
  f:
    given: {x: query model}
    is: layer(x)
    gives: query model
"""


def mistake(replace: str, of: str = "layer", extra: str = "") -> str:
    return f"""
mistakes:
  - id: slip
    of: {of}
    replace: {replace}
    says: {{en: A slip., zh: 失误。}}
{extra}"""


def patched(replace: str, choices: dict[str, object], of: str = "layer") -> list[list[float]]:
    program = small(PROGRAM, mistakes=mistake(replace, of)).patched("slip")
    r: Reading = Reading(program, choices, {}, {"norm.weight": tensor("model", [1.0, 1.0])}, Float64())
    return r.call("f", {"x": tensor("query model", [[3.0, 3.0]])}).array.tolist()


def check(replace: str, of: str = "layer", extra: str = "") -> list[str]:
    return faults(PROGRAM, mistakes=mistake(replace, of, extra))


def test_the_true_program_is_sound_and_stays_as_it_is() -> None:
    assert faults(PROGRAM) == []
    program = small(PROGRAM, mistakes=mistake("{y: x}"))
    program.patched("slip")
    same(Reading(program, {"place": "pre"}, {}, {"norm.weight": tensor("model", [1.0, 1.0])}, Float64()).call(
        "f", {"x": tensor("query model", [[3.0, 3.0]])}), "query model", [[4, 4]])  # fmt: skip


def test_an_expression_replaces_an_equation_in_every_variant() -> None:
    assert patched("{y: 7 * x}", {"place": "pre"}) == [[21, 21]]
    assert patched("{y: 7 * x}", {"place": "post"}) == [[21, 21]]


def test_alternatives_of_the_same_choice_replace_only_those_named() -> None:
    assert patched("{y: {by: place, pre: 7 * x}}", {"place": "pre"}) == [[21, 21]]
    assert patched("{y: {by: place, pre: 7 * x}}", {"place": "post"}) == [[1, 1]]


def test_alternatives_of_another_choice_replace_the_whole_equation() -> None:
    assert patched(
        "{y: {by: deep, true: 7 * x, else: x}}".replace("true", '"true"'), {"place": "pre", "deep": False}
    ) == [[3, 3]]


def test_the_result_is_replaced_as_is() -> None:
    assert patched("{is: 2 * x}", {"place": "pre"}) == [[6, 6]]


def test_a_tensor_of_another_function_is_named_with_it() -> None:
    assert patched("{norm.scale: 1.0 + 0 * x}", {"place": "pre"}, of="f") == [[6, 6]]


def test_a_new_tensor_stands_before_all_others() -> None:
    assert patched("{tenfold: 10 * x, y: tenfold}", {"place": "pre"}) == [[30, 30]]


def test_several_mistakes_are_made_together() -> None:
    text = mistake("{y: 7 * x}") + mistake("{scale: 1.0 + 0 * x}", of="norm").replace(
        "\nmistakes:", ""
    ).replace("slip", "slide")
    program = small(PROGRAM, mistakes=text).patched("slip", "slide")
    assert program.functions["layer"].equation("y") is not None
    assert str(program.functions["norm"].let[0].alternatives[""]) == "1.0 + 0 * x"


def test_an_unknown_mistake() -> None:
    with pytest.raises(PackError, match=r"unknown mistake 'slop' \(did you mean 'slip'\?\)"):
        small(PROGRAM, mistakes=mistake("{y: x}")).patched("slop")


# -- the check ----------------------------------------------------------------------------------------


def test_sound_mistakes_have_no_fault() -> None:
    assert check("{y: {by: place, pre: before}}") == []
    assert check('{y: "reinterpret(x, order=(query, model), into=(query, model))"}') == []
    assert check("{tenfold: 10 * x, y: tenfold}") == []
    assert check("{is: x / (scale + eps) * weight}", of="norm") == []


def test_unknown_tensor_in_a_patch() -> None:
    assert check("{y: {by: place, pre: x + befor}}") == [
        "mistakes.yaml:5: the mistake 'slip': unknown tensor 'befor' (did you mean 'before'?)"
    ]


def test_a_patch_of_a_tensor_that_there_is_not() -> None:
    assert check("{befor: x}") == [
        "mistakes.yaml:5: 'slip' replaces 'befor', which layer does not have (did you mean 'before'?)"
    ]


def test_a_patch_of_an_input() -> None:
    assert check("{x: 2 * x}") == [
        "mistakes.yaml:5: 'slip' replaces 'x', which is an input of layer (patch what reads it)"
    ]


def test_a_patch_of_an_unknown_function() -> None:
    with pytest.raises(
        PackError, match=r"'slip' patches an unknown function 'nrom' \(did you mean 'norm'\?\)"
    ):
        check("{nrom.scale: x}")


def test_a_case_of_a_patch_that_no_variant_has() -> None:
    assert check("{y: {by: place, per: x, pre: x}}") == [
        "mistakes.yaml:5: 'y' has a case for place: per, which no variant has (did you mean 'pre'?)"
    ]


@pytest.mark.parametrize("replace", ["{y: {by: place, pre: x  +before}}", "{is: y}"])
def test_a_patch_that_changes_nothing(replace: str) -> None:
    assert check(replace) == ["mistakes.yaml:3: the mistake 'slip': it changes nothing in any variant"]


def test_a_patch_that_changes_only_the_precision_changes_something() -> None:
    assert check('{scale: "sqrt(mean(x ** 2, over=model))"}', of="norm") == []


def test_a_patch_that_is_wrong_in_one_variant_only() -> None:
    assert check("{y: before + x}") == [
        "mistakes.yaml:5: the mistake 'slip': unknown tensor 'before' (it does not exist where place is post)"
    ]


def test_a_patch_that_gives_other_axes() -> None:
    assert check('{is: "sum(y, over=query)"}') == [
        "mistakes.yaml:5: the mistake 'slip': layer gives [model], declared are [query model] (gives: query model)"
    ]


def test_a_patch_that_breaks_what_it_does_not_touch() -> None:
    assert check("{scale: index(query) >= 0}", of="norm") == [
        (
            "mistakes.yaml:3: the mistake 'slip' breaks what stands at program.yaml:7: "
            "'/' needs numbers, not true or false; write where(…, 1, 0), in 'x / scale * weight'"
        )
    ]


def test_a_patch_that_breaks_its_callers() -> None:
    program = PROGRAM.replace("    is: layer(x)\n", "    is: x + layer(x)\n")
    assert faults(program, mistakes=mistake('{is: "last(y, count=1, over=query)"}')) == [
        (
            "mistakes.yaml:3: the mistake 'slip' breaks what stands at program.yaml:18: "
            "axis 'query' has size Tq here and 1 there, in 'x + layer(x)'"
        )
    ]


def test_a_patch_with_a_parameter_that_the_program_does_not_have() -> None:
    assert check("{y: \"norm(x, params='norm2')\"}") == [
        "mistakes.yaml:5: the mistake 'slip': the true program has no parameter 'norm2.weight' in layer"
    ]


def test_widths_may_have_to_coincide() -> None:
    program = """
functions:
  f:
    given: {x: query model}
    parameters: {w: model ff}
    is: dot(x, w, over=model)
    gives: query ff
"""
    assert faults(program, mistakes=mistake('{is: "relabel(x, model=ff)"}', of="f")) == []


def test_a_mistake_may_leave_a_number_open() -> None:
    assert check('{y: "where(x > 0, x, fill)"}', extra="    free: {fill: [-inf, -1.0e+9]}\n") == []


def test_an_open_number_that_the_patch_does_not_read() -> None:
    assert check("{y: 2 * x}", extra="    free: {fill: [1]}\n") == [
        "mistakes.yaml:3: 'slip' leaves 'fill' open, which its patch does not read"
    ]


def test_an_open_number_with_the_name_of_a_tensor() -> None:
    assert check("{y: 2 * x}", extra="    free: {x: [1]}\n") == [
        "mistakes.yaml:3: 'slip' leaves 'x' open, which has a value already"
    ]


def test_a_value_of_an_open_number_that_is_no_expression() -> None:
    assert check("{y: fill * x}", extra='    free: {fill: [2, "1 +"]}\n') == [
        "mistakes.yaml:5: the mistake 'slip', with fill as 1 +: '(1 +) * x' is not an expression: invalid syntax"
    ]


def test_every_form_of_a_mistake_is_checked() -> None:
    assert check("{y: 2 * x + fill}", extra="    free: {fill: [1, scael, 3]}\n") == [
        "mistakes.yaml:5: the mistake 'slip': unknown tensor 'scael'"
    ]


def test_a_mistake_in_a_faulty_function_is_left_alone() -> None:
    program = PROGRAM.replace("x + before", "x + before + befor")
    assert faults(program, mistakes=mistake("{y: {by: place, pre: before}}")) == [
        "program.yaml:13: unknown tensor 'befor' (did you mean 'before'?)"
    ]


def test_a_patch_that_goes_wrong_only_with_a_past() -> None:
    program = """
functions:
  f:
    given: {x: context dh}
    remember: {past: {axes: key dh, is: whole}}
    let:
      whole: join(past, x, into=key)
      result: sum(whole, over=key)
    is: result
    gives: dh
"""
    assert faults(program) == []
    patch = "sum(whole * relabel(x, context=key), over=key)"
    assert faults(program, mistakes=mistake(f'{{result: "{patch}"}}', of="f")) == [
        f"mistakes.yaml:5: the mistake 'slip': axis 'key' has size Tc + Tc' here and Tc' there, in '{patch}'"
    ]


OPTIONAL = """
functions:
  f:
    given:
      x: context dh
      scale: {axes: "", otherwise: 1.0}
    remember: {past: {axes: key dh, is: whole}}
    let:
      whole: join(past, x, into=key)
    is: scale * sum(whole, over=key)
    gives: dh
"""


def test_the_default_of_an_input_may_be_replaced() -> None:
    text = mistake("{scale: 2.0}", of="f")
    assert faults(OPTIONAL, mistakes=text) == []
    r: Reading = Reading(small(OPTIONAL, mistakes=text).patched("slip"), {}, {}, {}, Float64())
    x = tensor("context dh", [[1.0], [2.0]])
    same(r.call("f", {"x": x}), "dh", [6])
    same(r.call("f", {"x": x, "scale": tensor("", 1.0)}), "dh", [6])


def test_what_is_remembered_may_be_replaced() -> None:
    text = mistake("{past: 2 * whole}", of="f")
    assert faults(OPTIONAL, mistakes=text) == []
    r: Reading = Reading(small(OPTIONAL, mistakes=text).patched("slip"), {}, {}, {}, Float64())
    x = tensor("context dh", [[1.0]])
    same(r.call("f", {"x": x}), "dh", [1])
    same(r.call("f", {"x": x}), "dh", [3])


@pytest.mark.parametrize(
    ("replace", "message"),
    [
        ("{scale: scael}", "unknown tensor 'scael' (did you mean 'scale'?)"),
        ("{scale: index(key)}", "the size of axis 'key' is not known here"),
        ('{past: "sum(whole, over=dh)"}', "'past' has axes [key], declared are [key dh]"),
        ("{past: whle}", "unknown tensor 'whle' (did you mean 'whole'?)"),
    ],
)
def test_a_wrong_default_or_memory_in_a_patch(replace: str, message: str) -> None:
    found = faults(OPTIONAL, mistakes=mistake(replace, of="f"))
    assert found == [f"mistakes.yaml:5: the mistake 'slip': {message}"]
