"""`experiment:` change something; say what must and what must not move.

Both runs are the target's own, so no expected value enters; the program says how large the noise
of each may be.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

import numpy as np

from conformance.judging import texts
from conformance.judging.common import Question, judged, last_position, prefixes, spread_over
from conformance.judging.compare import Comparison, at, compare, number
from conformance.judging.observe import Observation
from conformance.language.arithmetic import Array, Float64
from conformance.language.errors import PackError
from conformance.language.expression import Expression, parse
from conformance.language.program import Text
from conformance.language.tensors import Named, Operations
from conformance.pack.documents import ChangeDocument, ExperimentDocument
from conformance.pack.model import Claim, Draw
from conformance.plan import draws
from conformance.plan.scenario import Scenario
from conformance.results.records import Judgement
from conformance.tolerance import joined, tolerance

EVERYTHING = "everything"


def reads(claim: Claim) -> frozenset[str]:
    """Every tensor that must, or must not, move."""
    body: ExperimentDocument = claim.body
    return frozenset(body.same) | frozenset(body.moves)


def judge(question: Question) -> Judgement:
    """Run the scenario as it is and changed, and compare."""
    body: ExperimentDocument = question.claim.body
    other = replace(question, scenario=after_change(question))
    before = question.observation()
    if body.interleave:
        after = question.bench.interleave(question.scenario, other.scenario, question.dtype)
        other = question
    else:
        after = other.bench.observe(other.scenario, question.dtype, 1 if body.twice else 0)
    for seen, asked in ((before, question), (after, other)):
        unusable = asked.unusable(
            seen, *(n for n in reads(question.claim) if n in asked.scenario.operation.outputs)
        )
        if unusable is not None:
            return unusable
    found: list[Judgement] = []
    for name, where in body.same.items():
        found.append(_same(_Pair(question, other, before, after, name, _where(where, question.claim))))
    for name, where in body.moves.items():
        found.append(_moves(_Pair(question, other, before, after, name, _where(where, question.claim))))
    order = ("error", "fail", "unsupported", "pass")
    return min(found, key=lambda j: (order.index(j.verdict), -(j.margin or 0.0)))


def _where(where: str | bool, claim: Claim) -> Expression | None:
    return None if isinstance(where, bool) else parse(where, claim.at)


# -- what is changed ------------------------------------------------------------------------------


def after_change(question: Question) -> Scenario:
    """The changed scenario of a claim; of a large target it is not kept."""
    scenario, claim = question.scenario, question.claim
    if scenario.large:
        return changed(scenario, claim.body)
    return scenario.derive(("changed", claim.id), lambda: changed(scenario, claim.body))


def changed(scenario: Scenario, body: ExperimentDocument) -> Scenario:
    """The scenario after the change. Raises `PackError` for a change of nothing."""
    if body.schedule is not None:
        return scenario.changed(schedule=tuple(body.schedule))
    given, parameters = dict(scenario.given), dict(scenario.parameters)
    for pattern, change in body.change.items():
        group = given if pattern in given else parameters
        names = [name for name in group if fnmatchcase(name, pattern)]
        if not names:
            raise PackError(
                f"the experiment changes '{pattern}', which '{scenario.case.id}' has not", scenario.case.at
            )
        for name in names:
            group[name] = _change(scenario, name, group[name], change, parameter=group is parameters)
    return scenario.changed(given=given, parameters=parameters)


def changed_parameters(scenario: Scenario, body: ExperimentDocument) -> list[str]:
    """Parameters that an experiment changes; one that the scenario has not, as the experiment names it."""
    found: list[str] = []
    for pattern in body.change:
        if pattern not in scenario.given:
            found += [name for name in scenario.parameters if fnmatchcase(name, pattern)] or [pattern]
    return found


def _change(
    scenario: Scenario, name: str, old: Named[Array], change: ChangeDocument, *, parameter: bool
) -> Named[Array]:
    if change.rows is not None:
        return Named(old.axes, np.take(old.array, change.rows, axis=old.axes.index("batch")))
    if change.add is not None:
        extra = scenario.evaluate(str(change.add), {name: old})
        return Operations(Float64()).ordered(Operations(Float64()).elementwise("add", old, extra), old.axes)
    random = draws.generator(scenario.seed, scenario.case.id, name, "changed")
    if change.draw is not None and change.draw.normal is not None:
        fresh = draws.normal(random, old.array.shape, float(change.draw.normal))
    elif parameter:
        like = "gain" if name.endswith("weight") else ("bias" if old.array.ndim == 1 else "matrix")
        fresh = draws.parameter(random, old.array.shape, like)
    else:
        spec = scenario.case.given[name]
        assert isinstance(spec, Draw)
        fresh = draws.draw(spec, old.array.shape, random, scenario.sizes)
        if old.array.dtype.kind == "i" and spec.form == "tokens":  # a redrawn token is another token
            fresh = np.where(fresh == old.array, (fresh + 1) % scenario.sizes["vocab"], fresh)
    if change.resample in ("", EVERYTHING):
        return Named(old.axes, fresh)
    mask = spread_over(scenario.evaluate(change.resample, {name: old}), old.axes)
    return Named(old.axes, np.where(mask, fresh, old.array))


# -- what is compared -----------------------------------------------------------------------------


@dataclass(frozen=True)
class _Change:
    """A tensor before and after.

    `exact` is the program's own change of it, `allowed` the tolerance of the difference, `counts`
    where it is compared (None: everywhere).
    """

    name: str
    old: Named[Array]
    new: Named[Array]
    exact: Array
    allowed: Array
    counts: Array | None


@dataclass(frozen=True)
class _Pair:
    question: Question
    other: Question
    before: Observation
    after: Observation
    name: str
    where: Expression | None

    def tensors(self) -> list[_Change]:
        """What there is to compare: one for each call and layer in which the tensor is seen."""
        body: ExperimentDocument = self.question.claim.body
        q, bench = self.question, self.question.bench
        expected = bench.expected(q.scenario)
        found = []
        if body.schedule is not None:
            return [self._joined()]
        for i, step in enumerate(self.before.steps):
            names = [self.name] if self.name in step.outputs else prefixes(dict(step.taps), self.name)
            for name in names:
                old, new = (s.find(name) for s in (step, self.after.steps[i]))
                if old is None or new is None:
                    continue
                sigmas = [self._sigma(asked, i, name) for asked in (q, self.other)]
                exacts = [self._exact(asked, i, name) for asked in (q, self.other)]
                counts = q.counted(i, old, self.where)
                rows = next((c.rows for c in body.change.values() if c.rows is not None), None)
                if rows is not None:
                    b = old.axes.index("batch")
                    old = Named(old.axes, np.take(old.array, rows, axis=b))
                    sigmas[0] = np.take(sigmas[0], rows, axis=b)
                    exacts[0] = np.take(exacts[0], rows, axis=b)
                    if counts is not None and counts.shape[b] > 1:
                        counts = np.take(counts, rows, axis=b)
                if self.before.last_only and "query" in old.axes:
                    whole = expected[i].outputs[name]
                    sigmas = [last_position(Named(whole.axes, s)).array for s in sigmas]
                    exacts = [last_position(Named(whole.axes, e)).array for e in exacts]
                    if counts is not None and counts.shape[whole.axes.index("query")] > 1:
                        counts = last_position(Named(whole.axes, counts)).array
                with np.errstate(all="ignore"):
                    exact = exacts[1] - exacts[0]
                found.append(_Change(name, old, new, exact, tolerance(joined(*sigmas), q.dtype), counts))
        return found

    @staticmethod
    def _exact(asked: Question, i: int, name: str) -> Array:
        step = asked.bench.expected(asked.scenario)[i]
        return (step.outputs[name] if name in step.outputs else step.taps[name]).array

    @staticmethod
    def _sigma(asked: Question, i: int, name: str) -> Array:
        return asked.bench.sigma(asked.scenario, asked.dtype, i, name)

    def _joined(self) -> _Change:
        """A prompt at once against the same prompt in chunks, joined along the queries."""
        q = self.question
        (whole,) = self.before.steps
        old = whole.outputs[self.name]
        axis = old.axes.index("query")
        parts = [step.outputs[self.name].array for step in self.after.steps]
        sigma_parts = [self._sigma(self.other, i, self.name) for i in range(len(self.after.steps))]
        lengths = self.other.scenario.schedule
        counts = q.counted(0, old, self.where)
        sigma = self._sigma(q, 0, self.name)
        if self.after.last_only:
            ends = np.cumsum(lengths) - 1
            old = Named(old.axes, np.take(old.array, ends, axis=axis))
            sigma = np.take(sigma, ends, axis=axis)
            if counts is not None and counts.shape[axis] > 1:
                counts = np.take(counts, ends, axis=axis)
            parts = [np.take(p, [-1], axis=axis) for p in parts]
            sigma_parts = [np.take(s, [-1], axis=axis) for s in sigma_parts]
        new = Named(old.axes, np.concatenate(parts, axis=axis))
        allowed = tolerance(joined(sigma, np.concatenate(sigma_parts, axis=axis)), q.dtype)
        return _Change(self.name, old, new, np.zeros(old.array.shape), allowed, counts)


def _same(pair: _Pair) -> Judgement:
    comparisons: list[Comparison] = [
        compare(t.name, t.new, t.old.array, t.allowed, t.counts) for t in pair.tensors()
    ]
    if not comparisons:
        return Judgement("unsupported", texts.unseen(pair.name))
    found = judged(comparisons)
    if found.verdict != "fail" or found.evidence is None:
        return found
    place = at(found.evidence.index)
    got, expected = number(found.evidence.got), number(found.evidence.expected)
    return replace(
        found,
        summary=Text(
            f"`{pair.name}` must not move here, and at {place.en} it went from {expected} to {got}",
            f"`{pair.name}` 此处不应变化，但在 {place.zh} 处由 {expected} 变为 {got}",
        ),
    )


FARTHEST = 1e300
VISIBLE = 3.0
"""Tolerances by which the program's own tensor must move before the target's is asked to."""


def _moves(pair: _Pair) -> Judgement:
    """At every position that `where` names, some element must differ by more than noise.

    Where the program itself hardly moves (in a dtype of few bits), nothing can be asked.
    """
    tensors = pair.tensors()
    if not tensors:
        return Judgement("unsupported", texts.unseen(pair.name))
    weakest = np.inf
    for tensor in tensors:
        both = np.asarray(tensor.new.array, np.float64), np.asarray(tensor.old.array, np.float64)
        if not all(np.isfinite(a).all() for a in both):
            return Judgement("fail", Text(f"`{tensor.name}` is not finite", f"`{tensor.name}` 含有非有限值"))
        counts = tensor.counts
        # Axes along which `where` does not vary are those of one position's elements.
        inner = None if counts is None else tuple(i for i, size in enumerate(counts.shape) if size == 1)
        with np.errstate(all="ignore"):
            scale = np.maximum(tensor.allowed, 5e-324)
            moved = np.max(np.abs(both[0] - both[1]) / scale, axis=inner, keepdims=True, initial=0.0)
            moved = np.minimum(moved, FARTHEST)  # of a tensor without any noise, an infinity
            demanded = np.max(np.abs(tensor.exact) / scale, axis=inner, keepdims=True, initial=0.0) > VISIBLE
        if counts is not None:
            demanded = demanded & np.broadcast_to(counts, demanded.shape)
        weakest = min(weakest, float(moved[demanded].min(initial=np.inf)))
    if weakest == np.inf:
        return Judgement("unsupported", texts.nothing_to_compare())
    if weakest > 1:
        return Judgement(
            "pass", Text(f"`{pair.name}` moves as it must", f"`{pair.name}` 按要求发生了变化"), 1 / weakest
        )
    return Judgement(
        "fail",
        Text(f"`{pair.name}` must move here and does not", f"`{pair.name}` 此处必须变化，却没有变化"),
        float(1 / weakest) if weakest > 0 else float("inf"),
    )
