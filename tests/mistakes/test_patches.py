"""What a patch may replace besides equations, and what only patches may say."""

from __future__ import annotations

from typing import Any

import pytest
from language.small import faults, same, small, tensor

from conformance.language.arithmetic import Float64
from conformance.language.errors import PackError
from conformance.language.evaluate import Reading
from conformance.language.program import Program

PROGRAM = """
functions:
  running:
    given:
      x: batch query
      seen: key
      start: {axes: "", otherwise: "0 * sum(x, over=(batch, query))"}
    remember:
      past: {axes: batch key, is: all_of_it}
    let:
      all_of_it: join(past, x, into=key)
    is: sum(where(seen, all_of_it, 0), over=key) + start
    gives: batch
  whole:
    given: {x: batch query}
    remember:
      length: {axes: "", first: 0, is: length + Tq}
    let:
      seen: range(length + Tq, over=key) >= 0
      once: running(x, seen, params='first')
    is: once
    gives: batch
  layer:
    given: {x: batch}
    parameters: {w: ""}
    is: x * w
    gives: batch
  body:
    given: {x: batch}
    is: repeat(layer, x, params='layers', times=n_layers)
    gives: batch
"""
ENTRIES = ("whole", "body")


def mistake(of: str, replace: str) -> str:
    return f"""
mistakes:
  - id: slip
    of: {of}
    replace: {replace}
    says: {{en: A slip., zh: 失误。}}
"""


def patched(of: str, replace: str) -> Program:
    assert faults(PROGRAM, mistakes=mistake(of, replace), entries=ENTRIES) == []
    return small(PROGRAM, mistakes=mistake(of, replace)).patched("slip")


def results(program: Program, *calls: dict[str, Any], function: str = "whole") -> list[list[float]]:
    reading = Reading(program, {}, {}, {}, Float64())
    return [reading.call(function, call).array.tolist() for call in calls]


ONE, TWO = {"x": tensor("batch query", [[1.0]])}, {"x": tensor("batch query", [[10.0]])}
THREE = {"x": tensor("batch query", [[100.0]])}


def test_the_true_program_remembers_and_starts_at_zero() -> None:
    assert results(small(PROGRAM), ONE, TWO, THREE) == [[1], [11], [111]]


def test_a_patch_of_an_optional_input_stands_in_where_it_is_left_out() -> None:
    program = patched("running", "{start: 5.0}")
    assert results(program, ONE, TWO) == [[6], [16]]
    given = {**ONE, "seen": tensor("key", [True]), "start": tensor("", 7.0)}
    assert results(program, given, function="running") == [[8]]


def test_a_patch_of_something_remembered_is_what_is_kept() -> None:
    program = patched("running", "{past: 2 * all_of_it}")
    assert results(program, ONE, TWO, THREE) == [[1], [12], [124]]


@pytest.mark.parametrize("name", ["start", "past"])
def test_neither_can_depend_on_a_choice(name: str) -> None:
    program = small(PROGRAM, mistakes=mistake("running", f"{{{name}: {{by: place, pre: 1.0}}}}"))
    with pytest.raises(PackError, match=f"'{name}' of running cannot depend on a choice"):
        program.patched("slip")


def test_a_patch_may_remember_in_another_place() -> None:
    program = patched("whole", "{once: \"running(x, seen, params='other')\"}")
    assert results(program, ONE, TWO) == [[1], [11]]


def test_everything_is_every_axis_of_a_tensor() -> None:
    reading = Reading(small(PROGRAM), {}, {}, {}, Float64())
    x = tensor("batch query", [[1.0, 2.0], [3.0, 6.0]])
    for expression, expected in {"sum": 12.0, "mean": 3.0, "max": 6.0}.items():
        same(reading.expression(f"{expression}(x, over=everything)", {"x": x}), "", expected)


@pytest.mark.parametrize(("same_as", "expected"), [("0", 4.0), ("n_layers - 1", 9.0)])
def test_all_turns_of_a_repetition_may_have_the_parameters_of_one(same_as: str, expected: float) -> None:
    program = patched(
        "body", f"{{is: \"repeat(layer, x, params='layers', times=n_layers, same={same_as})\"}}"
    )
    weights = {f"layers.{i}.w": tensor("", float(i + 2)) for i in range(2)}
    reading = Reading(program, {}, {}, weights, Float64(), numbers={"n_layers": 2})
    same(reading.call("body", {"x": tensor("batch", [1.0])}), "batch", [expected])
