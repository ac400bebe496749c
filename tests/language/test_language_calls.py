"""Functions that call each other: parameters, state, axes bound at the call, taps and variants."""

from __future__ import annotations

import numpy as np
import pytest

from conformance.language.errors import PackError
from conformance.language.tensors import Named
from language.small import reading, same, tensor

X = tensor("query model", [[1.0, 2.0], [3.0, 4.0]])

SCALE = """
functions:
  scale:
    given: {x: ... model}
    parameters: {w: model}
    is: x * w
    gives: ... model
  f:
    given: {x: ... model}
    is: scale(scale(x, params='one'), params='two')
    gives: ... model
"""


def test_parameters_are_found_by_the_prefix_of_the_call() -> None:
    r = reading(SCALE, {"one.w": tensor("model", [2.0, 3.0]), "two.w": tensor("model", [10.0, 100.0])})
    same(r.call("f", {"x": X}), "query model", [[20, 600], [60, 1200]])
    assert list(r.declared) == ["one.w", "two.w"]


def test_prefixes_add_up() -> None:
    program = (
        SCALE
        + """
  g:
    given: {x: ... model}
    is: f(x, params='layers.0')
    gives: ... model
"""
    )
    ones = tensor("model", [1.0, 1.0])
    r = reading(program, {"layers.0.one.w": ones, "layers.0.two.w": ones})
    same(r.call("g", {"x": X}), "query model", X.array)


def test_a_parameter_that_is_missing_is_named_in_full() -> None:
    r = reading(SCALE, {"one.w": tensor("model", [2.0, 3.0]), "tow.w": tensor("model", [1.0, 1.0])})
    with pytest.raises(
        PackError, match=r"program.yaml:6: there is no parameter 'two.w' \(did you mean 'tow.w'\?\)"
    ):
        r.call("f", {"x": X})


REPEAT = """
functions:
  layer:
    given: {x: ... model}
    parameters: {w: model}
    let: {y: x * w}
    is: y
    gives: ... model
  f:
    given: {x: ... model}
    is: repeat(layer, x, params='layers', times=n_layers%s)
    gives: ... model
"""
LAYERS = {f"layers.{i}.w": tensor("model", [i + 2.0, 1.0]) for i in range(3)}


def test_repeat_gives_each_output_to_the_next() -> None:
    r = reading(REPEAT % "", LAYERS, n_layers=3)
    same(r.call("f", {"x": X}), "query model", [[24, 2], [72, 4]])


def test_repeat_may_use_the_same_parameters_every_time() -> None:
    r = reading(REPEAT % ", same=0", LAYERS, n_layers=3)
    same(r.call("f", {"x": X}), "query model", [[8, 2], [24, 4]])


def test_nothing_repeated_is_the_input() -> None:
    same(reading(REPEAT % "", n_layers=0).call("f", {"x": X}), "query model", X.array)


def test_repeat_names_its_taps_by_number() -> None:
    tensors = "tensors: {y: {axes: ... model, of: layer, says: {en: y, zh: y}}}"
    r = reading(REPEAT % "", LAYERS, tensors=tensors, n_layers=2)
    r.call("f", {"x": X})
    assert list(r.taps) == ["layers.0.y", "layers.1.y"]


def test_taps_are_those_of_the_last_call() -> None:
    tensors = "tensors: {x: {axes: ... model, of: scale, says: {en: x, zh: x}}}"
    r = reading(SCALE.replace("params='one'", "params='one', at='first'"), LAYERS, tensors=tensors)
    r.parameters = {"one.w": tensor("model", [2.0, 2.0]), "two.w": tensor("model", [1.0, 1.0])}
    r.call("f", {"x": X})
    r.call("f", {"x": tensor("query model", [[5.0, 6.0]])})
    same(r.taps["first.x"], "query model", [[5, 6]])
    same(r.taps["x"], "query model", [[10, 12]])


def test_a_substitute_is_used_from_there_on() -> None:
    tensors = "tensors: {x: {axes: ... model, of: scale, says: {en: x, zh: x}}}"
    ones = tensor("model", [1.0, 1.0])
    r = reading(
        SCALE.replace("params='one'", "params='one', at='first'"),
        {"one.w": ones, "two.w": ones},
        tensors=tensors,
    )
    r.substitute = lambda name, t: Named(t.axes, t.array + 1) if name == "first.x" else t
    same(r.call("f", {"x": X}), "query model", X.array + 1)


CACHE = """
functions:
  store:
    given: {x: context dh}
    remember: {past: {axes: key dh, is: all}}
    let: {all: "join(past, x, into=key)"}
    is: sum(all, over=key)
    gives: dh
  f:
    given: {x: context dh}
    remember: {length: {axes: "", first: 0, is: length + Tc}}
    let:
      a: store(x, params='a')
      b: store(2 * x, params='b')
    is: stack(a, b, 0 * a + length, over=side)
    gives: dh side
"""


def test_each_place_of_a_call_has_its_own_state() -> None:
    r = reading(CACHE)
    same(r.call("f", {"x": tensor("context dh", [[1.0], [2.0]])}), "dh side", [[3, 6, 0]])
    same(r.call("f", {"x": tensor("context dh", [[10.0]])}), "dh side", [[13, 26, 2]])
    same(r.call("f", {"x": tensor("context dh", [[0.0], [0.0], [1.0]])}), "dh side", [[14, 28, 3]])


def test_another_reading_begins_without_a_past() -> None:
    reading(CACHE).call("f", {"x": tensor("context dh", [[1.0]])})
    same(reading(CACHE).call("f", {"x": tensor("context dh", [[5.0]])}), "dh side", [[5, 10, 0]])


def test_a_stateless_call_remembers_nothing_nor_do_those_inside_it() -> None:
    program = (
        CACHE
        + """
  g:
    given: {x: context dh}
    is: f(x, state='none')
    gives: dh side
"""
    )
    r = reading(program)
    for _ in range(2):
        same(r.call("g", {"x": tensor("context dh", [[1.0]])}), "dh side", [[1, 2, 0]])
    assert r.state == {}


def test_joining_extends_along_the_axis_that_the_past_does_not_have() -> None:
    program = """
functions:
  f:
    given: {x: query dh}
    remember: {past: {axes: key dh, is: all}}
    let: {all: "join(past, x, into=key)"}
    is: all
    gives: key dh
"""
    r = reading(program)
    same(r.call("f", {"x": tensor("query dh", [[1.0]])}), "key dh", [[1]])
    same(r.call("f", {"x": tensor("dh query", [[2.0, 3.0]])}), "key dh", [[1], [2], [3]])


def test_what_is_not_remembered_yet_has_no_value_but_for_join() -> None:
    program = CACHE.replace("sum(all, over=key)", "sum(past + all, over=key)")
    with pytest.raises(
        PackError, match="nothing is remembered before the first call: only join can take that"
    ):
        reading(program).call("f", {"x": tensor("context dh", [[1.0]])})


BOUND = """
functions:
  softmax:
    given: {x: ... over}
    let: {e: "exp(x - max(x, over=over))"}
    is: e / sum(e, over=over)
    gives: ... over
  count:
    given: {x: ... query}
    is: 0 * x + Tq
    gives: ... query
  f:
    given: {x: query key}
    is: softmax(x, over=key)
    gives: query key
  g:
    given: {x: query key}
    is: count(x, query=key)
    gives: key query
"""


def test_an_axis_is_bound_at_the_call() -> None:
    x = np.log([[1.0, 3.0], [4.0, 4.0]])
    found = reading(BOUND).call("f", {"x": tensor("query key", x)})
    assert set(found.axes) == {"query", "key"}
    np.testing.assert_allclose(found.array, [[0.25, 0.75], [0.5, 0.5]], rtol=1e-15)


def test_two_axes_cannot_have_one_name_inside() -> None:
    with pytest.raises(PackError, match=r"an axis stands twice in \[query query\]"):
        reading(BOUND).call("g", {"x": tensor("query key", [[1.0, 2.0]])})


def test_a_bound_axis_brings_its_size_along() -> None:
    program = BOUND.replace("given: {x: query key}\n    is: count", "given: {x: key}\n    is: count").replace(
        "gives: key query", "gives: key"
    )
    same(reading(program).call("g", {"x": tensor("key", [0, 0, 0])}), "key", [3, 3, 3])


OPTIONAL = """
functions:
  f:
    given:
      x: query
      mask: {axes: ... query, otherwise: index(query) >= first}
      first: {axes: "", otherwise: 1}
    is: where(mask, x, 0)
    gives: query
"""


def test_a_default_may_use_other_inputs_that_were_given() -> None:
    r = reading(OPTIONAL)
    x = tensor("query", [5.0, 6.0, 7.0])
    same(r.call("f", {"x": x, "first": 2}), "query", [0, 0, 7])
    same(r.call("f", {"x": x, "mask": tensor("query", [True, False, True])}), "query", [5, 0, 7])


def test_what_must_be_given_is_named() -> None:
    with pytest.raises(PackError, match=r"program.yaml:3: 'x' is not given to f"):
        reading(OPTIONAL).call("f", {})


CHOICE = """
functions:
  f:
    given: {x: ... model}
    parameters:
      b: {axes: model, when: {bias: [all, "true"]}}
    let:
      normed: {by: place, pre: x * 2}
      y: {by: place, pre: normed + b, else: x + b}
    is: {by: place, pre: y, post: y * scale}
    gives: ... model
"""


@pytest.mark.parametrize(
    ("choices", "expected"),
    [
        ({"place": "pre", "bias": "none", "scale": 7}, [[2, 4], [6, 8]]),
        ({"place": "pre", "bias": "all", "scale": 7}, [[12, 14], [16, 18]]),
        ({"place": "post", "bias": True, "scale": 3}, [[33, 36], [39, 42]]),
        ({"place": "post", "bias": "none", "scale": "sqrt(D + 2)"}, [[2, 4], [6, 8]]),
    ],
)
def test_equations_and_parameters_follow_the_choices(
    choices: dict[str, object], expected: list[list[int]]
) -> None:
    same(
        reading(CHOICE, {"b": tensor("model", [10.0, 10.0])}, choices).call("f", {"x": X}),
        "query model",
        expected,
    )


def test_a_tensor_that_the_variant_lacks_is_unknown_and_the_message_says_why() -> None:
    program = CHOICE.replace("else: x + b", "else: normed + b")
    with pytest.raises(PackError, match=r"unknown tensor 'normed' \(it does not exist where place is post\)"):
        reading(program, choices={"place": "post", "bias": "none", "scale": 1}).call("f", {"x": X})


def test_a_function_without_a_result_in_a_variant() -> None:
    with pytest.raises(PackError, match="f has no result in this variant"):
        reading(CHOICE, choices={"place": "none", "bias": "none", "scale": 1}).call("f", {"x": X})


def test_a_parameter_of_value_zero_is_named_where_it_is_at_fault() -> None:
    program = CHOICE.replace("normed + b", "'dot(normed, b, over=model)'")
    with pytest.raises(PackError, match=r"there is no axis 'model' in \[\].*\('b' is 0 where bias is none\)"):
        reading(program, choices={"place": "pre", "bias": "none", "scale": 1}).call("f", {"x": X})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("scale(x, x)", "scale takes 1 inputs, not 2"),
        ("scale()", "'x' is not given to scale"),
        ("scale(x, x=x)", "'x' is given twice to scale"),
        ("scale(x, y=x)", r"scale has no input 'y'"),
        ("scale(x, parms='one')", r"scale has no input 'parms' \(did you mean 'params'\?\)"),
        ("scale(x, params=one)", "params must be a quoted name, not one"),
        ("scale(x, state='off')", "state must be 'none', not 'off'"),
        ("scale(x, model=modl)", r"unknown axis 'modl' \(did you mean 'model'\?\)"),
        ("scal(x)", r"unknown function 'scal' \(did you mean 'scale'\?\)"),
        ("repeat(scale, x)", "is not of the form repeat"),
        ("repeat(scale, x, times=0.5)", "times must be a whole number"),
        ("repeat(skale, x, times=1)", r"unknown function 'skale' \(did you mean 'scale'\?\)"),
    ],
)
def test_wrong_calls_of_the_program_s_functions(call: str, message: str) -> None:
    program = SCALE.replace("scale(scale(x, params='one'), params='two')", call)
    with pytest.raises(PackError, match=message) as caught:
        reading(program).call("f", {"x": X})
    assert str(caught.value.at) == "program.yaml:10"
