"""`holds: sum(weights, over=key) == 1`: a property of the target's own tensors.

A comparison of reals holds within the spread that its two sides have in the stochastic reading;
what is no comparison must be true as it stands.
"""

from __future__ import annotations

import ast

import numpy as np

from conformance.judging import texts
from conformance.judging.common import Question, judged, prefixes
from conformance.judging.compare import Comparison, compare
from conformance.language.arithmetic import Array, Float64
from conformance.language.expression import names_in, parse
from conformance.language.tensors import Named, Operations
from conformance.noise import Noise, default_generator, spread
from conformance.pack.model import Claim
from conformance.plan.scenario import Tensors
from conformance.results.records import Judgement
from conformance.tolerance import tolerance


def reads(claim: Claim) -> frozenset[str]:
    """Every name that the expression mentions."""
    return names_in(parse(str(claim.body), claim.at))


def judge(question: Question) -> Judgement:
    """The expression in every layer and call in which all of its tensors are seen."""
    seen = question.observation()
    outputs = question.bench.expected(question.scenario)[0].outputs
    used = reads(question.claim)
    unusable = question.unusable(seen, *(name for name in outputs if name in used and name == question.scenario.main_output))
    if unusable is not None:
        return unusable
    comparisons: list[Comparison] = []
    missing = ""
    for i, step in enumerate(seen.steps):
        for prefix in places(question, used, i):
            wanted = tensors_of(question, used, prefix, i)
            own = {name: find(step, prefix, name) for name in wanted}
            absent = [name for name, tensor in own.items() if tensor is None]
            if absent:
                missing = absent[0]
                continue
            comparisons += _compare(question, i, prefix, {n: t for n, t in own.items() if t is not None}, seen.last_only)
    if not comparisons:
        return Judgement("unsupported", texts.unseen(missing or str(question.claim.body)))
    return judged(comparisons)


def places(question: Question, used: frozenset[str], step: int) -> list[str]:
    """The prefixes under which the expression's taps stand: one for each layer."""
    expected = question.bench.expected(question.scenario)[step]
    tapped = [name for name in used if name not in expected.outputs and prefixes(dict(expected.taps), name)]
    offered = [name for name in tapped if question.scenario.pack.program.tensors[name].offered]
    if not offered:
        return [""]
    return [name[: -len(offered[0])] for name in prefixes(dict(expected.taps), offered[0])]


def tensors_of(question: Question, used: frozenset[str], prefix: str, step: int) -> list[str]:
    """The tensors of the expression that the target must show."""
    expected = question.bench.expected(question.scenario)[step]
    tensors = question.scenario.pack.program.tensors
    return [
        name for name in sorted(used)
        if name in expected.outputs or (prefix + name in expected.taps and tensors[name].offered)
    ]


def find(step: Tensors, prefix: str, name: str) -> Named[Array] | None:
    """A tensor of the target: an output by its name, or a tap under a prefix."""
    return step.outputs.get(name) if not prefix and name in step.outputs else step.taps.get(prefix + name, step.outputs.get(name))


def _compare(question: Question, i: int, prefix: str, own: dict[str, Named[Array]], last_only: bool) -> list[Comparison]:
    scenario, bench = question.scenario, question.bench
    expected = bench.expected(scenario)[i]
    given = scenario.steps()[i]
    internal = {n[len(prefix):]: t for n, t in expected.taps.items() if n.startswith(prefix) and "." not in n[len(prefix):]}
    names = {**internal, **given, **own}
    del last_only
    expression = parse(str(question.claim.body), question.claim.at)
    match expression.tree:
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            pass
        case _:
            truth = scenario.evaluate(expression, names)
            counts = question.counted(i, truth, question.claim.where)
            return [compare(str(question.claim.body), Named(truth.axes, truth.array.astype(float)), np.ones(truth.array.shape), np.zeros(truth.array.shape), counts)]
    sides = [ast.unparse(left), ast.unparse(right)]
    operations = Operations(Float64())
    values = [scenario.evaluate(side, names) for side in sides]
    difference = operations.elementwise("subtract", *values)
    # The spread of the two sides' difference, had the program's own tensors stood there.
    noise = Noise(question.dtype, default_generator(scenario.key))
    sampled = {name: t for name, t in _samples(question, i, prefix).items() if name in own}
    lifted = {n: Named(t.axes, noise.lift(t.array)) for n, t in {**internal, **given}.items()}
    noisy = scenario.evaluate(f"({sides[0]}) - ({sides[1]})", {**lifted, **sampled}, noise)
    exact = scenario.evaluate(f"({sides[0]}) - ({sides[1]})", {**names, **{n: _exact(expected, prefix, n) for n in own}})
    order = [noisy.axes.index(axis) for axis in difference.axes]
    samples = noisy.array.transpose([0, *(k + 1 for k in order)])
    centre = exact.array.transpose([exact.axes.index(axis) for axis in difference.axes])
    allowed = tolerance(spread(samples, centre), question.dtype)
    want = np.zeros(difference.array.shape)
    if isinstance(op, ast.LtE | ast.Lt):
        difference = Named(difference.axes, np.maximum(difference.array, 0.0))
    elif isinstance(op, ast.GtE | ast.Gt):
        difference = Named(difference.axes, np.minimum(difference.array, 0.0))
    broadcast = [operations.elementwise("add", v, Named(difference.axes, want)) for v in values]
    left_side, right_side = (operations.ordered(v, difference.axes) for v in broadcast)
    counts = question.counted(i, difference, question.claim.where)
    found = compare(sides[0], difference, want, allowed, counts)
    if found.evidence is None:
        return [found]
    place = tuple(found.evidence.index[axis] for axis in difference.axes)
    from dataclasses import replace

    shown = replace(
        found.evidence, got=float(left_side.array[place]), expected=float(right_side.array[place]), arrays={}
    )
    return [replace(found, evidence=shown)]


def _exact(expected: Tensors, prefix: str, name: str) -> Named[Array]:
    return expected.taps[prefix + name] if prefix + name in expected.taps else expected.outputs[name]


def _samples(question: Question, i: int, prefix: str) -> dict[str, Named[Array]]:
    """The program's tensors as the stochastic reading makes them."""
    step = question.bench.samples(question.scenario, question.dtype)[i]
    found = {n[len(prefix):]: t for n, t in step.taps.items() if n.startswith(prefix)}
    return {**found, **step.outputs}


