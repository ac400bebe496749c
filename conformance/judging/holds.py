"""`holds: sum(weights, over=key) == 1`: a property of the target's own tensors.

A comparison of reals holds within the spread that its two sides have in the stochastic reading;
what is no comparison must be true as it stands.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from conformance.judging import texts
from conformance.judging.common import Question, judged, prefixes
from conformance.judging.compare import Comparison, compare
from conformance.judging.spreads import in_order
from conformance.language.arithmetic import Array, Float64
from conformance.language.expression import Expression, names_in, parse
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
    unusable = question.unusable(
        seen, *(name for name in outputs if name in used and name == question.scenario.main_output)
    )
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
            found = {n: t for n, t in own.items() if t is not None}
            comparisons.append(_Place(question, i, prefix, found).compare())
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
        name
        for name in sorted(used)
        if name in expected.outputs or (prefix + name in expected.taps and tensors[name].offered)
    ]


def find(step: Tensors, prefix: str, name: str) -> Named[Array] | None:
    """A tensor of the target: an output by its name, or a tap under a prefix."""
    return (
        step.outputs.get(name)
        if not prefix and name in step.outputs
        else step.taps.get(prefix + name, step.outputs.get(name))
    )


@lru_cache(maxsize=1024)
def _sides(tree: ast.expr) -> tuple[str, str, type[ast.cmpop]] | None:
    """The two sides of a comparison, and its operator; None for anything else."""
    match tree:
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return ast.unparse(left), ast.unparse(right), type(op)
    return None


@dataclass(frozen=True)
class _Place:
    """The expression in one call and layer: the target's tensors, and all others by name."""

    question: Question
    step: int
    prefix: str
    own: Mapping[str, Named[Array]]

    @property
    def expression(self) -> Expression:
        return parse(str(self.question.claim.body), self.question.claim.at)

    def others(self) -> dict[str, Named[Array]]:
        """The program's own tensors of this layer, and the inputs of this call."""
        expected = self.question.bench.expected(self.question.scenario)[self.step]
        here = {n[len(self.prefix) :]: t for n, t in expected.taps.items() if n.startswith(self.prefix)}
        inner = {name: tensor for name, tensor in here.items() if "." not in name}
        return {**inner, **self.question.scenario.steps()[self.step]}

    def compare(self) -> Comparison:
        """A comparison of two sides within their spread; anything else must be true as it stands."""
        sides = _sides(self.expression.tree)
        if sides is not None:
            return self.sides(*sides)
        scenario, claim = self.question.scenario, self.question.claim
        truth = scenario.evaluate(self.expression, {**self.others(), **self.own})
        counts = self.question.counted(self.step, truth, claim.where)
        shape = truth.array.shape
        allowed = np.zeros(shape)
        if not truth.array.all():
            allowed[~self.demanded(truth.axes)] = np.inf
        return compare(str(claim.body), truth, np.ones(shape), allowed, counts)

    def demanded(self, axes: Sequence[str]) -> Array:
        """Where the program's own tensors make the expression true in every sample of the dtype.

        Elsewhere (a tensor that is finite exactly, and passes through something that the dtype cannot
        hold) nobody's would, and nothing is asked.
        """
        _, noisy = self.readings(str(self.question.claim.body))
        return np.asarray(in_order(noisy, axes).all(axis=0))

    def sides(self, left: str, right: str, op: type[ast.cmpop]) -> Comparison:
        scenario = self.question.scenario
        names = {**self.others(), **self.own}
        difference = scenario.evaluate(f"({left}) - ({right})", names)
        allowed = self.allowed(f"({left}) - ({right})", difference.axes)
        beyond = difference.array
        if op in (ast.LtE, ast.Lt):
            beyond = np.maximum(beyond, 0.0)
        elif op in (ast.GtE, ast.Gt):
            beyond = np.minimum(beyond, 0.0)
        counts = self.question.counted(self.step, difference, self.question.claim.where)
        found = compare(left, Named(difference.axes, beyond), np.zeros(beyond.shape), allowed, counts)
        if found.evidence is None or found.agrees:  # nobody asks where it is worst
            return found
        place = tuple(found.evidence.index[axis] for axis in difference.axes)
        got, expected = (
            float(self.broadcast(scenario.evaluate(side, names), difference)[place]) for side in (left, right)
        )
        return replace(found, evidence=replace(found.evidence, got=got, expected=expected, arrays={}))

    @staticmethod
    def broadcast(side: Named[Array], whole: Named[Array]) -> Array:
        zeros = Named(whole.axes, np.zeros(whole.array.shape))
        operations = Operations(Float64())
        return operations.ordered(operations.elementwise("add", side, zeros), whole.axes).array

    def allowed(self, difference: str, axes: Sequence[str]) -> Array:
        """The tolerance of the difference, had the program's own tensors stood there."""
        question, bench = self.question, self.question.bench
        scenario = question.scenario
        # A claim may name a choice that the program's function does not ask for.
        named = sorted(name for name in names_in(parse(difference)) if name in scenario.choices)
        choices = [(name, scenario.choices[name]) for name in named]
        text = hashlib.sha256(f"{difference} {sorted(self.own)} {choices}".encode()).hexdigest()[:16]
        key = f"{scenario.key[:24]}/{question.dtype}/{self.step}/{self.prefix}/{text}"
        if key not in bench.store:
            bench.store[key] = self.spread(difference, axes)
        return tolerance(bench.store[key], question.dtype)

    def spread(self, difference: str, axes: Sequence[str]) -> Array:
        exact, noisy = self.readings(difference)
        centre = Operations(Float64()).ordered(exact, axes)
        return spread(in_order(noisy, axes), centre.array)

    def readings(self, expression: str) -> tuple[Named[Array], Named[Array]]:
        """An expression over the program's own tensors: exactly, and in every sample of its noise."""
        question, bench = self.question, self.question.bench
        scenario = question.scenario
        noise = Noise(question.dtype, default_generator(scenario.key))
        exact_step = bench.expected(scenario)[self.step]
        noisy_step = bench.spreads.samples(scenario, question.dtype)[self.step]

        def named(step: Tensors, name: str) -> Named[Array]:
            tap = self.prefix + name
            return step.taps[tap] if tap in step.taps and name not in step.outputs else step.outputs[name]

        exact = scenario.evaluate(
            expression, {**self.others(), **{n: named(exact_step, n) for n in self.own}}
        )
        lifted = {n: Named(t.axes, noise.lift(t.array)) for n, t in self.others().items()}
        noisy = scenario.evaluate(
            expression, {**lifted, **{n: named(noisy_step, n) for n in self.own}}, noise
        )
        return exact, noisy
