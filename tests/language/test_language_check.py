"""The check on load: one test for each kind of fault, with its message, place and suggestion."""

from __future__ import annotations

import pytest

from conformance.language.check import EntryPoint, explored
from language.small import faults, small

SOUND = """
functions:
  norm:
    given: {x: ... model}
    parameters: {weight: model}
    is: x / sqrt(mean(x ** 2, over=model) + eps) * weight
    gives: ... model
  f:
    given: {x: batch query model}
    parameters:
      w: model ff
    let:
      normed: {by: place, pre: "norm(x, params='norm')"}
      hidden: {by: place, pre: "dot(normed, w, over=model)", post: "dot(x, w, over=model)"}
    is: hidden
    gives: batch query ff
"""
TENSORS = """
tensors:
  hidden: {axes: batch query ff, of: f, says: {en: hidden, zh: hidden}}
"""


def test_a_sound_program_has_no_fault() -> None:
    assert faults(SOUND, TENSORS) == []


def changed(old: str, new: str, text: str = SOUND) -> str:
    assert text.count(old) == 1, old
    return text.replace(old, new)


# -- unknown names ------------------------------------------------------------------------------------


def test_unknown_tensor() -> None:
    assert faults(changed("dot(normed, w", "dot(nromed, w"))[-1] == (
        "program.yaml:14: unknown tensor 'nromed' (did you mean 'normed'?)"
    )


def test_unknown_parameter() -> None:
    program = changed("+ eps) * weight", "+ eps) * wieght")
    assert "program.yaml:6: unknown tensor 'wieght' (did you mean 'weight'?)" in faults(program)


def test_unknown_axis_in_an_expression() -> None:
    program = changed("mean(x ** 2, over=model)", "mean(x ** 2, over=mdel)")
    assert faults(program) == ["program.yaml:6: unknown axis 'mdel' (did you mean 'model'?)"]


def test_unknown_function() -> None:
    program = changed("norm(x, params='norm')", "nrom(x, params='norm')")
    assert "program.yaml:13: unknown function 'nrom' (did you mean 'norm'?)" in faults(program)


def test_unknown_input() -> None:
    program = changed("norm(x, params='norm')", "norm(x, parms='norm')")
    assert faults(program) == ["program.yaml:13: norm has no input 'parms' (did you mean 'params'?)"]


def test_missing_input() -> None:
    program = changed("norm(x, params='norm')", "norm(params='norm')")
    assert faults(program) == ["program.yaml:13: 'x' is not given to norm"]


def test_a_tensor_that_is_defined_further_down() -> None:
    program = """
functions:
  f:
    given: {x: query}
    let:
      b: a + 1
      a: x + 1
    is: a + b
    gives: query
"""
    assert faults(program) == ["program.yaml:6: unknown tensor 'a' (it is defined further down)"]


def test_a_tensor_that_one_variant_lacks() -> None:
    program = changed('post: "dot(x, w, over=model)"', 'post: "dot(normed, w, over=model)"')
    assert faults(program) == [
        "program.yaml:14: unknown tensor 'normed' (it does not exist where place is post)"
    ]


def test_unknown_choice() -> None:
    program = changed('normed: {by: place, pre: "norm', 'normed: {by: plaec, pre: "norm')
    assert "program.yaml:13: 'normed' depends on an unknown choice 'plaec' (did you mean 'place'?)" in faults(
        program
    )


def test_unknown_choice_of_a_parameter() -> None:
    program = changed("w: model ff", "w: {axes: model ff, when: {plce: [pre]}}")
    assert (
        "program.yaml:11: the parameter 'w' depends on an unknown choice 'plce' (did you mean 'place'?)"
        in faults(program)
    )


def test_unknown_entry_point() -> None:
    assert faults(SOUND, entries=["nrom"]) == ["<pack>: unknown function 'nrom' (did you mean 'norm'?)"]


def test_a_tensor_that_its_function_does_not_have() -> None:
    tensors = TENSORS.replace("hidden: {", "hiden: {", 1)
    assert faults(SOUND, tensors) == ["tensors.yaml:3: f has no tensor 'hiden' (did you mean 'hidden'?)"]


# -- axes, sizes and kinds ----------------------------------------------------------------------------


def test_a_result_of_other_axes_than_declared() -> None:
    program = changed("    is: hidden\n", "    is: sum(hidden, over=query)\n")
    assert faults(program) == [
        "program.yaml:15: f gives [batch ff], declared are [batch query ff] (gives: batch query ff)"
    ]


def test_a_result_that_loses_an_axis_which_the_declaration_leaves_open() -> None:
    program = changed("sqrt(mean(x ** 2, over=model) + eps) * weight", "x * weight").replace(
        "is: x / x", "is: sum(x, over=query)"
    )
    assert faults(program)[0] == (
        "program.yaml:6: norm gives [batch model], declared are [batch query model] (gives: ... model)"
    )


def test_an_input_of_other_axes_than_declared() -> None:
    program = changed("norm(x, params='norm')", "norm(dot(x, w, over=model), params='norm')")
    assert faults(program) == [
        "program.yaml:13: the input 'x' of norm has axes [batch query ff], declared are [... model]"
    ]


def test_a_tensor_of_other_axes_than_tensors_yaml_says() -> None:
    tensors = TENSORS.replace("batch query ff", "batch query model")
    assert faults(SOUND, tensors) == [
        "program.yaml:14: 'hidden' has axes [batch query ff], declared are [batch query model]"
    ]


def test_a_default_of_other_axes_than_declared() -> None:
    program = """
functions:
  f:
    given:
      x: ... query
      mask: {axes: ... key, otherwise: index(query) >= 0}
    is: where(any(mask, over=key), x, 0)
    gives: ... query
"""
    assert faults(program) == [
        "program.yaml:6: the default of 'mask' has axes [query], declared are [... key]"
    ]


REMEMBER = """
functions:
  f:
    given: {x: context dh}
    remember: {past: {axes: key dh, is: %s}}
    let: {whole: "join(past, x, into=key)"}
    is: sum(whole, over=key)
    gives: dh
"""


def test_state_of_other_axes_than_declared() -> None:
    assert faults(REMEMBER % "whole") == []
    assert faults(REMEMBER % '"sum(whole, over=dh)"') == [
        "program.yaml:5: 'past' has axes [key], declared are [key dh]"
    ]


def test_what_goes_wrong_only_with_a_past() -> None:
    # The first call has as many keys as queries, the second has not.
    program = """
functions:
  f:
    given: {x: context dh}
    remember: {past: {axes: key dh, is: whole}}
    let:
      whole: join(past, x, into=key)
      mixed: relabel(whole, key=context) + x
    is: mixed
    gives: context dh
"""
    assert faults(program) == [
        "program.yaml:8: axis 'context' has size Tc + Tc' here and Tc' there, in 'relabel(whole, key=context) + x'"
    ]


def test_sizes_that_do_not_agree() -> None:
    program = """
functions:
  f:
    given: {x: query model}
    parameters: {w: ff}
    is: relabel(x, model=ff) + w
    gives: query ff
"""
    assert faults(program) == [
        "program.yaml:6: axis 'ff' has size D here and F there, in 'relabel(x, model=ff) + w'"
    ]


def test_an_axis_has_one_size_in_a_call() -> None:
    program = """
functions:
  f:
    given: {x: query dh}
    let:
      tail: last(x, count=1, over=query)
    is: x + sum(tail, over=query)
    gives: query dh
"""
    assert faults(program) == [
        "program.yaml:6: axis 'query' has size 1 in 'tail' and Tq in 'x': two lengths need two axes"
    ]


def test_a_number_where_a_condition_is_needed() -> None:
    program = changed("    is: hidden\n", "    is: where(hidden, 0, 1)\n")
    assert faults(program) == [
        (
            "program.yaml:15: the condition of where must be true or false, not real numbers; "
            "write a comparison, in 'where(hidden, 0, 1)'"
        )
    ]


def test_an_input_of_another_kind_than_declared() -> None:
    program = """
functions:
  pick:
    given: {tokens: {axes: query, kind: int}}
    parameters: {embed: vocab model}
    is: take(embed, vocab=tokens)
    gives: query model
  f:
    given: {x: query}
    is: pick(x)
    gives: query model
"""
    assert faults(program) == [
        "program.yaml:10: the input 'tokens' of pick holds real numbers, declared are whole numbers"
    ]


# -- what no variant reaches, what nothing uses -------------------------------------------------------


def test_a_case_for_a_value_that_no_variant_has() -> None:
    program = changed('normed: {by: place, pre: "norm', 'normed: {by: place, psot: x, pre: "norm')
    assert faults(program) == [
        "program.yaml:13: 'normed' has a case for place: psot, which no variant has (did you mean 'post'?)"
    ]


def test_a_parameter_for_a_value_that_no_variant_has() -> None:
    program = changed("w: model ff", "w: {axes: model ff, when: {place: [pre, post, both]}}")
    assert faults(program) == [
        "program.yaml:11: the parameter 'w' has a case for place: both, which no variant has (there are post, pre)"
    ]


ONLY_PRE = """
functions:
  inner:
    given: {x: query}
    parameters: {%s}
    is: {by: place, %s}
    gives: query
  f:
    given: {x: query}
    is: {by: place, pre: inner(x), post: x}
    gives: query
"""


def test_an_alternative_that_no_variant_comes_to() -> None:
    program = ONLY_PRE % ("", "pre: x, post: 2 * x")
    assert faults(program) == [
        "program.yaml:6: no variant comes here with place: post, in 'is' of inner (remove it)"
    ]


def test_an_else_that_is_left_with_nothing() -> None:
    program = ONLY_PRE % ("", "pre: x, else: 2 * x")
    assert faults(program) == ["program.yaml:6: nothing is left for 'else', in 'is' of inner (remove it)"]


def test_a_parameter_that_no_variant_comes_to() -> None:
    program = ONLY_PRE % ("b: {axes: query, when: {place: [post]}}", "pre: x + b")
    assert faults(program) == [
        "program.yaml:5: no variant that comes here has the parameter 'b' of inner (remove it)"
    ]


def test_a_function_that_is_never_called() -> None:
    program = changed("norm(x, params='norm')", "x")
    assert faults(program) == ["program.yaml:3: the function 'norm' is never called (remove it, or call it)"]


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        (
            "    let:\n",
            "    let:\n      extra: 2 * x\n",
            "program.yaml:13: 'extra', a tensor of f, is never read",
        ),
        (
            "      w: model ff\n",
            "      w: model ff\n      b: ff\n",
            "program.yaml:12: 'b', a parameter of f, is never read",
        ),
        (
            "{x: batch query model}",
            "{x: batch query model, y: query}",
            "program.yaml:9: 'y', an input of f, is never read",
        ),
    ],
)
def test_a_name_that_is_never_read(old: str, new: str, fault: str) -> None:
    assert faults(changed(old, new)) == [f"{fault} (remove it)"]


def test_a_tensor_that_only_reports_read_is_used() -> None:
    program = changed("    let:\n", "    let:\n      extra: 2 * x\n")
    tensors = TENSORS + "  extra: {axes: batch query model, of: f, says: {en: extra, zh: extra}}\n"
    assert faults(program, tensors) == []


# -- one name for two things --------------------------------------------------------------------------

NAMES = """
functions:
  f:
    given: {x: query model}
    parameters: {w: model}
    remember: {past: {axes: "", first: 0, is: past + 1}}
    let:
      %s: x * w + past
    is: %s
    gives: query model
"""


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("model", "the axis 'model'"),
        ("D", "the size of axis 'model'"),
        ("place", "the choice 'place'"),
        ("eps", "the choice 'eps'"),
        ("f", "the function 'f'"),
        ("exp", "the language's function 'exp'"),
        ("repeat", "the language's function 'repeat'"),
        ("pi", "the number 'pi'"),
        ("n_layers", "the number 'n_layers'"),
        ("params", "the argument 'params' of calls"),
    ],
)
def test_a_tensor_with_a_name_that_means_something_everywhere(name: str, other: str) -> None:
    found = faults(NAMES % (name, name))
    assert (
        f"program.yaml:8: '{name}' is a tensor of f and {other} (one name means one thing: rename it)"
        in found
    )


@pytest.mark.parametrize(
    ("name", "other", "line"),
    [("x", "an input", 4), ("w", "a parameter", 5), ("past", "a remembered tensor", 6)],
)
def test_a_tensor_with_a_name_that_its_function_has_already(name: str, other: str, line: int) -> None:
    found = faults(NAMES % (name, name))
    assert (
        f"program.yaml:8: '{name}' is a tensor and {other} of f (program.yaml:{line}) "
        "(one name means one thing: rename one)"
    ) in found


def test_an_input_may_bear_the_name_of_its_own_axis() -> None:
    program = "functions:\n  f:\n    given: {query: batch query}\n    is: query + 1\n    gives: batch query\n"
    assert faults(program) == []
    assert faults(
        program.replace("{query: batch query}", "{key: batch query}").replace("query + 1", "key + 1")
    ) == ["program.yaml:3: 'key' is an input of f and the axis 'key' (one name means one thing: rename it)"]


def test_a_parameter_may_bear_the_name_of_a_choice_but_not_of_a_size() -> None:
    program = "functions:\n  f:\n    given: {x: model}\n    parameters: {place: model}\n    is: x + place\n    gives: model\n"
    assert faults(program) == []
    assert (
        "program.yaml:4: 'Tq' is a parameter of f and the size of axis 'query' (one name means one thing: rename it)"
        in (faults(program.replace("{place: model}", "{Tq: model}").replace("x + place", "x + Tq")))
    )


def test_a_function_with_a_name_of_the_language() -> None:
    program = SOUND.replace("  norm:", "  exp:").replace("norm(x", "exp(x", 1)
    assert "program.yaml:3: 'exp' is a function of the language already (give it another name)" in faults(
        program
    )


def test_two_calls_that_make_the_same_tap() -> None:
    program = """
functions:
  double:
    given: {x: query}
    let: {y: 2 * x}
    is: y
    gives: query
  f:
    given: {x: query}
    let:
      once: double(x)
      twice: double(once)
    is: once + twice
    gives: query
"""
    tensors = "tensors: {y: {axes: query, of: double, says: {en: y, zh: y}}}"
    assert faults(program) == []
    assert faults(program, tensors) == [
        "program.yaml:12: the tensor 'y' is made here and at program.yaml:11 (give one of the calls at='…')"
    ]
    assert faults(program.replace("double(once)", "double(once, at='second')"), tensors) == []


def test_two_calls_that_remember_in_the_same_place() -> None:
    program = """
functions:
  count:
    given: {x: query}
    remember: {past: {axes: "", first: 0, is: past + 1}}
    is: past + x
    gives: query
  f:
    given: {x: query}
    remember: {calls: {axes: "", first: 0, is: calls + 1}}
    let:
      once: count(x) + calls
      twice: count(once)
    is: once + twice
    gives: query
"""
    assert (
        "program.yaml:13: two calls of count remember in the same place (give one of them at='…')"
        in faults(program)
    )


# -- what only mistakes may do ------------------------------------------------------------------------


def test_reinterpret_is_for_mistakes() -> None:
    program = changed(
        "    is: hidden\n", '    is: "reinterpret(hidden, order=(query, ff), into=(query, ff))"\n'
    )
    assert faults(program)[0].startswith(
        "program.yaml:15: reinterpret is for mistakes only, in 'reinterpret("
    )


def test_exchanging_axes_is_for_mistakes() -> None:
    program = changed("    is: hidden\n", '    is: "relabel(hidden, query=batch, batch=query)"\n')
    assert faults(program) == [
        (
            "program.yaml:15: relabel exchanges axes, which is for mistakes only, "
            "in 'relabel(hidden, query=batch, batch=query)' (a tensor's values belong to its axes)"
        )
    ]


def test_a_function_that_calls_itself() -> None:
    program = changed("is: x / sqrt(mean(x ** 2, over=model) + eps) * weight", "is: f(x) + norm(x)")
    assert faults(program) == [
        "program.yaml:3: the function 'norm' calls itself",
        "program.yaml:8: the function 'f' calls itself",
    ]


# -- all of them at once ------------------------------------------------------------------------------


def test_every_fault_is_reported_once_and_in_order() -> None:
    program = """
functions:
  inner:
    given: {x: ... model}
    let:
      a: x + nothing
      b: a * 2
    is: sum(b, over=modl)
    gives: ... model
  f:
    given: {x: query model}
    let:
      a: inner(x)
      b: unknown(a)
      c: dot(a, x, over=ff)
    is: b + c
    gives: query
"""
    assert faults(program) == [
        "program.yaml:6: unknown tensor 'nothing'",
        "program.yaml:8: unknown axis 'modl' (did you mean 'model'?)",
        "program.yaml:14: unknown function 'unknown'",
        "program.yaml:15: there is no axis 'ff' in [query model], in 'dot(a, x, over=ff)'",
    ]


def test_what_depends_on_a_fault_is_no_further_fault() -> None:
    program = changed("dot(x, w, over=model)", "dot(x, nothing, over=model)")
    assert faults(program) == ["program.yaml:14: unknown tensor 'nothing'"]


def test_optional_inputs_are_checked_where_they_are_given_too() -> None:
    program = """
functions:
  f:
    given:
      x: query
      mask: {axes: ... query, otherwise: index(query) >= 0}
    is: where(mask, x, 0)
    gives: query
"""
    # Left out, the mask has one axis; given, it may have a batch.
    assert faults(program) == ["program.yaml:7: f gives [batch query], declared are [query] (gives: query)"]
    assert faults(program, entries=[EntryPoint("f", axes={"mask": ("query",)})]) == []


def test_an_entry_point_holds_choices_to_what_it_allows() -> None:
    program = """
functions:
  f:
    given: {x: query}
    is: {by: place, pre: x}
    gives: query
"""
    assert faults(program) == ["program.yaml:5: f has no result in this variant"]
    assert faults(program, entries=[EntryPoint("f", {"place": ["pre"]})]) == []


# -- which variants are read --------------------------------------------------------------------------


def test_explored_are_the_named_ones_and_each_with_one_choice_changed() -> None:
    a, b = {"norm": "rms", "bias": True, "eps": 1e-5}, {"norm": "layer", "bias": False, "eps": 1e-6}
    found = explored([a, b], {"norm": ["layer", "rms"], "bias": [True, False], "eps": []})
    assert found[:2] == (a, b)
    assert list(found[2:]) == [
        {**a, "norm": "layer"}, {**a, "bias": False}, {**b, "norm": "rms"}, {**b, "bias": True},
    ]  # fmt: skip


def test_true_and_the_word_true_are_one_value() -> None:
    assert len(explored([{"bias": True}], {"bias": ["true", False]})) == 2


def test_small_packs_load() -> None:
    assert list(small(SOUND).functions) == ["norm", "f"]
