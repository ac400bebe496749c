"""The pack's cases made concrete, read truly and with mistakes made, and how far two readings are apart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import product
from typing import Any

import numpy as np

from conformance.language.arithmetic import Array, Float64
from conformance.language.errors import PackError
from conformance.language.naming import calls_of
from conformance.language.program import Program, key_of, reachable
from conformance.locations import bundled
from conformance.pack.load import load_pack
from conformance.pack.model import Operation, Pack, Variant
from conformance.plan.scenario import Scenario, Tensors
from conformance.plan.scenarios import Scenarios
from conformance.plan.variants import variant_of

FAR = 1e-4
"""A difference that nobody takes for float32 noise, in parts of the largest entry: a hundred times 1e-6."""
CLOSE = 1e-5
"""A difference that an adapter in float64 has, though some of it may be float32, in parts of the largest entry."""
RAISES = (PackError, ValueError, IndexError, ZeroDivisionError)
"""What reading a mistake may raise where it needs widths that coincide, as the code that makes it does."""


@cache
def pack() -> Pack:
    """The bundled pack of the forward pass."""
    return load_pack(bundled("spec") / "forward-pass")


def choices_of(operation: Operation, variant: Variant) -> Iterator[Mapping[str, Any]]:
    """What a target may follow where an operation is called without a config."""
    configured = any(a.everything == "config" for a in operation.arguments.values())
    if configured or operation.needs_variant:
        yield {}
        return
    fields = {}
    for name, either in operation.either.items():
        known = {key_of(value): value for value in (*either.among, *either.undeclared)}
        own = key_of(variant.choices[name])
        first = variant.name == next(iter(pack().variants))
        fields[name] = list(known.values()) if first else [known[own]] if own in known else either.undeclared
    for values in product(*fields.values()):
        yield dict(zip(fields, values, strict=True))


FURTHER: Sequence[Mapping[str, Any]] = (
    {"base": "llama", "qk_norm": "head", "rotary_fraction": 0.5, "window": 3, "ffn": "geglu_tanh"},
    {"base": "llama", "block_form": "parallel", "ffn": "geglu", "wide_heads": True},
    {"base": "minimal", "output": "log_probabilities"},
    {"base": "vaswani", "encoder_final_norm": True},
)
"""Variants without a name in which choices are made that no named one makes."""
FURTHER_CASES = ("mha-plain", "block-plain", "model-plain", "decode-chunks")


@cache
def scenarios() -> tuple[Scenario, ...]:
    """Every case in every named variant and some in the further ones, none twice, the small ones first."""
    made = Scenarios(pack())
    found: dict[str, Scenario] = {}
    further = [variant_of(pack(), entry, "the tests") for entry in FURTHER]
    for case in pack().cases.values():
        operation = pack().operations[case.operation]
        for variant in (*pack().variants.values(), *(further if case.id in FURTHER_CASES else [])):
            for choices in choices_of(operation, variant):
                scenario = made.of(case, variant, choices)
                if scenario is not None:
                    found.setdefault(scenario.key, scenario)
    return tuple(sorted(found.values(), key=effort))


def effort(scenario: Scenario) -> int:
    """About what a reading costs."""
    tokens = scenario.sizes.get("query", 1) ** 2 * scenario.layers * (1 + 3 * scenario.operation.model)
    return tokens * max(1, len(scenario.schedule))


@cache
def _calls() -> Mapping[str, set[str]]:
    return calls_of(pack().program)


def touched(scenario: Scenario, functions: frozenset[str]) -> bool:
    """Whether a scenario comes to any of these functions, in some variant."""
    return bool(functions & reachable(pack().program, scenario.function, _calls()))


def outputs(tensors: Sequence[Tensors]) -> list[Array]:
    """All outputs of all calls."""
    return [tensor.array for step in tensors for tensor in step.outputs.values()]


_TRUE: dict[str, list[Array]] = {}


def true(scenario: Scenario) -> list[Array]:
    """What the program makes of a scenario."""
    if scenario.key not in _TRUE:
        _TRUE[scenario.key] = outputs(scenario.read(Float64()))
    return _TRUE[scenario.key]


def patched(scenario: Scenario, program: Program) -> list[Array] | None:
    """What a patched program makes of it, or None where that raises."""
    try:
        return outputs(scenario.read(Float64(), program))
    except RAISES:
        return None


def apart(one: Sequence[Array] | None, other: Sequence[Array] | None) -> float:
    """The largest difference, in parts of the largest entry; infinite where shapes or NaN differ."""
    if one is None or other is None:
        return 0.0 if one is other else np.inf
    return max((_apart(a, b) for a, b in zip(one, other, strict=True)), default=0.0)


def _apart(a: Array, b: Array, counts: Array | None = None) -> float:
    if a.shape != b.shape:
        return np.inf
    if counts is not None:
        where = np.broadcast_to(counts, a.shape)
        a, b = a[where], b[where]
    finite = np.isfinite(a)
    if (finite != np.isfinite(b)).any():
        return np.inf
    a, b = np.asarray(a[finite], np.float64), np.asarray(b[finite], np.float64)
    largest = float(np.abs(b).max(initial=0.0))
    difference = float(np.abs(a - b).max(initial=0.0))
    return difference / largest if largest else np.inf if difference else 0.0


def apart_where(a: Array, b: Array, counts: Array | None) -> float:
    """The same of two arrays, where they count."""
    with np.errstate(all="ignore"):
        return _apart(a, b, counts)
