"""Which goldens there are, and what stands in each: published cases in every variant that makes a difference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from conformance.golden.files import GoldenError, digest, little_endian
from conformance.grading import Grader
from conformance.plan.items import entry_points
from conformance.judging.program_bench import NoSession, ProgramBench, offer_of
from conformance.language.arithmetic import Array, Float64
from conformance.language.program import Choices, key_of
from conformance.language.tensors import Named
from conformance.pack.model import Case, Pack, Variant
from conformance.plan.scenario import Scenario, Tensors
from conformance.plan.scenarios import Scenarios
from conformance.plan.variants import Graded

LONG = 80
"""From this sequence length on only inputs, parameters and outputs are kept, and hashes of the rest."""
SEED = 0


@dataclass(frozen=True)
class Golden:
    """One file: a case in the first of the variants for which it is the same.

    `choices` are those that the case's operation leaves open and that were settled for it.
    """

    name: str
    scenario: Scenario
    variants: tuple[str, ...]
    choices: Choices = field(default_factory=dict)

    @property
    def long(self) -> bool:
        """Whether taps are kept as hashes only."""
        sizes = self.scenario.sizes
        return max(sizes.get(axis, 0) for axis in ("query", "key")) >= LONG


@dataclass(frozen=True)
class Content:
    """What stands in a golden: named tensors, and the hashes of those that are left out."""

    tensors: Mapping[str, Named[Array]]
    omitted: Mapping[str, str]


def goldens(pack: Pack, patterns: Sequence[str] = ()) -> list[Golden]:
    """Every golden of a pack's published cases, or of those whose id fits one of `patterns`.

    Raises `GoldenError` for a pattern that fits no published case.
    """
    cases = [case for case in pack.cases.values() if case.published]
    for pattern in patterns:
        if not any(fnmatchcase(case.id, pattern) for case in cases):
            raise GoldenError(
                pattern, "no published case has this id; published cases say `published: true` in the pack"
            )
    if patterns:
        cases = [case for case in cases if any(fnmatchcase(case.id, pattern) for pattern in patterns)]
    scenarios = Scenarios(pack, SEED)
    return [golden for case in cases for golden in _of_case(pack, case, scenarios)]


def _of_case(pack: Pack, case: Case, scenarios: Scenarios) -> list[Golden]:
    operation = pack.operations[case.operation]
    found: dict[str, Golden] = {}
    for variant in pack.variants.values():
        for settled in settlements(pack, operation.name, variant):
            scenario = scenarios.of(case, variant, settled)
            if scenario is None:
                continue
            before = found.get(scenario.key)
            if before is None:
                found[scenario.key] = Golden("", scenario, (variant.name,), settled)
            elif variant.name not in before.variants:
                found[scenario.key] = replace(before, variants=(*before.variants, variant.name))
    made = list(found.values())
    for labels in (
        [""] * len(made),
        [_values(g) for g in made],
        [g.variants[0] for g in made],
        [f"{g.variants[0]}-{_values(g)}" for g in made],
    ):
        if len(set(labels)) == len(made):
            return [
                replace(
                    g, name="-".join(filter(None, (f"{operation.name}/{case.id}", label))) + ".safetensors"
                )
                for g, label in zip(made, labels, strict=True)
            ]
    raise AssertionError(f"the goldens of {case.id} cannot be told apart by variant and choices")


def _values(golden: Golden) -> str:
    return "-".join(key_of(value) for value in golden.choices.values())


def settlements(pack: Pack, operation: str, variant: Variant) -> list[Choices]:
    """Every way to settle what an operation leaves open, where a target declares this variant."""
    names = entry_points(pack)
    bench = ProgramBench(NoSession(), offer_of(names), program=pack.program)
    grader = Grader.of(pack, bench, Graded((variant,), (variant,)), SEED)
    return list(grader.candidates(pack.operations[operation], variant))


def content(golden: Golden) -> Content:
    """What stands in a golden file, computed now: the exact float64 reading of its scenario."""
    scenario = golden.scenario
    tensors: dict[str, Named[Array]] = {}
    omitted: dict[str, str] = {}
    for group, named in (("given", scenario.given), ("parameters", scenario.parameters)):
        tensors.update({f"{group}/{name}": Named(t.axes, compact(t.array)) for name, t in named.items()})
    for i, step in enumerate(scenario.read(Float64())):
        for name, tensor in step.outputs.items():
            tensors[f"step{i}/output/{name}"] = whole(tensor)
        for name, tensor in _taps(step):
            if golden.long:
                omitted[f"step{i}/tap/{name}"] = digest(little_endian(whole(tensor).array))
            else:
                tensors[f"step{i}/tap/{name}"] = whole(tensor)
    return Content(tensors, omitted)


def _taps(step: Tensors) -> list[tuple[str, Named[Array]]]:
    """The taps of a call that are no output under the same name."""
    return [(name, tensor) for name, tensor in step.taps.items() if name not in step.outputs]


def whole(tensor: Named[Array]) -> Named[Array]:
    """A tensor of the program with an array of its own, in C order."""
    return Named(tensor.axes, np.ascontiguousarray(tensor.array).reshape(tensor.array.shape))


def compact(array: Array) -> Array:
    """An input as it is stored: real numbers as float32 where that loses nothing, and float64 elsewhere."""
    array = np.asarray(array)
    if array.dtype.kind != "f":
        return array
    with np.errstate(all="ignore"):
        short = array.astype(np.float32)
    return short if np.array_equal(short.astype(np.float64), array, equal_nan=True) else array


def metadata(pack: Pack, golden: Golden, made: Content) -> dict[str, str]:
    """What a file says of itself; the axes of each tensor under the tensor's name."""
    scenario = golden.scenario
    said: dict[str, Any] = {
        "pack": pack.id,
        "pack_version": pack.version,
        "case": scenario.case.id,
        "operation": scenario.operation.name,
        "variant": golden.variants[0],
        "variants": " ".join(golden.variants),
        "seed": scenario.seed,
        "schedule": " ".join(map(str, scenario.schedule)),
        "choices": " ".join(f"{name}={key_of(value)}" for name, value in sorted(scenario.choices.items())),
    }
    return {
        **{name: str(value) for name, value in said.items()},
        **{name: " ".join(tensor.axes) for name, tensor in made.tensors.items()},
    }
