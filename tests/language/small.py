"""Packs of a few lines, as strings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from conformance.language.arithmetic import Arithmetic, Array, Float64
from conformance.language.check import EntryPoint, check, explored
from conformance.language.evaluate import Reading
from conformance.language.program import Program
from conformance.language.tensors import Named, Operations
from conformance.pack.program_files import program
from conformance.pack.yaml_source import parse

AXES = """
axes:
  batch: {size: B}
  query: {size: Tq}
  key: {size: Tk}
  context: {size: Tc}
  head: {size: H, config: n_heads}
  kv_head: {size: Hkv, config: n_kv_heads}
  dh: {size: Dh, config: d_head}
  dv: {size: Dv, config: d_value}
  model: {size: D, config: d_model}
  ff: {size: F, config: d_ff}
  vocab: {size: V, config: vocab_size}
  head_dh: {parts: [head, dh]}
  side: {length: 2}
  pair: {size: Np}
  over: {size: N}
"""
NOTHING = "tensors: {}"


def small(functions: str, tensors: str = NOTHING, mistakes: str = "", axes: str = AXES) -> Program:
    """A program; its texts are called program.yaml, tensors.yaml, mistakes.yaml and axes.yaml."""
    return program(
        parse(axes, "axes.yaml"),
        parse(tensors, "tensors.yaml"),
        [parse(functions, "program.yaml")],
        [parse(mistakes, "mistakes.yaml")] if mistakes else [],
    )


def faults(
    functions: str,
    tensors: str = NOTHING,
    mistakes: str = "",
    entries: Sequence[str | EntryPoint] = ("f",),
    choices: Mapping[str, Sequence[Any]] | None = None,
) -> list[str]:
    """What the check says, one line for each fault.

    `choices` are all choices with their values, the first of which make the one named variant.
    """
    allowed = choices or {"place": ["pre", "post"], "eps": [1e-5]}
    named = {name: values[0] for name, values in allowed.items()}
    points = [entry if isinstance(entry, EntryPoint) else EntryPoint(entry) for entry in entries]
    return [
        str(error) for error in check(small(functions, tensors, mistakes), explored([named], allowed), points)
    ]


def tensor(axes: str, values: Any) -> Named[Array]:
    """A named tensor; whole numbers stay whole."""
    return Named(tuple(axes.split()), np.asarray(values))


def reading(
    functions: str,
    parameters: Mapping[str, Named[Array]] | None = None,
    choices: Mapping[str, Any] | None = None,
    sizes: Mapping[str, int] | None = None,
    arithmetic: Arithmetic[Array] | None = None,
    tensors: str = NOTHING,
    **numbers: float,
) -> Reading[Array]:
    """A reading of a program in float64."""
    return Reading(
        small(functions, tensors),
        choices or {},
        sizes or {},
        parameters or {},
        arithmetic or Float64(),
        numbers=numbers,
    )


def value(expression: str, sizes: Mapping[str, int] | None = None, **tensors: Named[Array]) -> Named[Array]:
    """An expression over tensors, in float64."""
    found = reading("functions: {}", sizes=sizes).expression(expression, tensors)
    return found if isinstance(found, Named) else Operations(Float64()).constant(found)


def same(found: Named[Array], axes: str, expected: Any) -> None:
    """Assert that a tensor has these axes, in whatever order, and these values, exactly."""
    assert set(found.axes) == set(axes.split())
    ordered = Operations(Float64()).ordered(found, axes.split()).array
    np.testing.assert_array_equal(ordered, np.asarray(expected), strict=False)


def arity(name: str) -> int:
    """How many arrays an elementwise function takes."""
    return {"where": 3}.get(name, 1 if name in _UNARY else 2)


_UNARY = {"negative", "abs", "exp", "log", "sqrt", "sin", "cos", "tanh", "erf", "not", "finite"}
