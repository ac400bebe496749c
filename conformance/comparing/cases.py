"""Makes the same calls to both targets, and holds what comes back side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from conformance.comparing.findings import AGREE, BOTH_RAISE, NOT_COMPARED, PART, Compared, Met
from conformance.comparing.planning import Plan, Side, Sides
from conformance.golden.tolerances import known_tolerances
from conformance.grading import EngineFault, Grader
from conformance.judging.bench import Bench
from conformance.judging.common import Question, last_position, spread_over
from conformance.judging.compare import compare
from conformance.judging.observe import Observation
from conformance.language.arithmetic import Array
from conformance.language.errors import PackError
from conformance.language.program import Text
from conformance.language.tensors import Named
from conformance.noise import ROUNDOFF
from conformance.pack.model import Pack
from conformance.plan.items import Item
from conformance.plan.scenario import Scenario
from conformance.plan.scenarios import Scenarios
from conformance.session import NotOffered, Outcome, Raised

OF_TOKENS = frozenset(("key", "context"))
"""Axes of tokens that may be padding, of which nobody says what a target makes of it."""


def lower(dtypes: Sequence[str]) -> str:
    """The dtype that rounds most."""
    return max(dtypes, key=lambda dtype: ROUNDOFF[dtype])


class Comparing:
    """Makes the calls of a plan, case by case."""

    def __init__(self, pack: Pack, sides: Sides, plan: Plan, seed: int) -> None:
        """Nothing is called yet."""
        self.sides = sides
        self.plan = plan
        store = known_tolerances(pack)
        ours = Bench(sides[0], plan.offers[0], store=store, graph=sides[0].graph)
        theirs = Bench(sides[1], plan.offers[1], exact=ours.exact, store=store, graph=sides[1].graph)
        theirs.spreads = ours.spreads
        # A file is one model: the other side is given its sizes and weights, unless it is a file as well.
        brought = [None if side.graph is None else side.graph.own for side in sides]
        own = [brought[0] or brought[1], brought[1] or brought[0]]
        made = Scenarios(pack, seed, own[0])
        scenarios = [made, made if own[1] is own[0] else Scenarios(pack, seed, own[1])]
        # What neither declares, such as the layout of a rotation, is as A is seen to follow it.
        self.graders = tuple(
            Grader(pack, bench, plan.graded, its, {})
            for bench, its in zip((ours, theirs), scenarios, strict=True)
        )

    def cases(self) -> Iterator[Met]:
        """Each case as it is met. Raises `PackError`, and `EngineFault` for a fault of ours."""
        for item, dtypes in self.plan.items:
            try:
                met = self._case(item, dtypes)
            except PackError:
                raise
            except Exception as error:
                raise EngineFault("a comparison", item.case.id, error) from error
            if met is not None:
                yield met

    def _case(self, item: Item, dtypes: tuple[str, str]) -> Met | None:
        scenario = self.graders[0].scenario(item.case, item.variant, dtypes[0])
        if scenario is None:
            return None
        theirs = scenario
        if self.graders[1].scenarios is not self.graders[0].scenarios:
            theirs = self.graders[1].scenario(item.case, item.variant, dtypes[1]) or scenario
        refusal = self._beyond(item, (scenario, theirs))
        if refusal is not None:
            return Met(item, dtypes, NOT_COMPARED, says=refusal)
        questions = [
            # A side that is no file is given all parameters, wherever they come from.
            Question(item.claim, its if side.graph else its.changed(own=None), dtype, grader.bench)
            for side, its, grader, dtype in zip(
                self.sides, (scenario, theirs), self.graders, dtypes, strict=True
            )
        ]
        for side, grader, question in zip(self.sides, self.graders, questions, strict=True):
            refused = grader.avoided(question)
            if refused is not None:
                return Met(item, dtypes, NOT_COMPARED, says=_of(side, refused.summary))
        seen = []
        outcomes: list[Outcome | None] = []
        for side, question in zip(self.sides, questions, strict=True):
            side.last = None
            seen.append(question.observation())
            outcomes.append(side.last)
        if any(one.failed is not None for one in seen):
            return self._failed(item, dtypes, seen, outcomes)
        return self._tensors(item, dtypes, questions, seen)

    def _beyond(self, item: Item, scenarios: tuple[Scenario, Scenario]) -> Text | None:
        """Why a file cannot meet a case, or cannot be compared with the other side; None where it can."""
        sizes = [side.graph.own.sizes for side in self.sides if side.graph is not None]
        for name in sizes[0] if len(sizes) > 1 else ():
            if sizes[0][name] != sizes[1].get(name):
                ours, theirs = sizes[0][name], sizes[1].get(name)
                return Text(
                    f"A has {name} {ours} and B {theirs}: they are models of two sizes",
                    f"A 的 {name} 为 {ours}，B 为 {theirs}：两个模型的尺寸不同",
                )
        for side, scenario in zip(self.sides, scenarios, strict=True):
            if side.graph is None or scenario.own is None:
                continue
            refusal = scenario.own.refusal(item.case, scenario.given, scenario.parameters, scenario.choices)
            if refusal is not None:
                return _of(side, refusal)
            if scenario.lacking and not all(other.graph for other in self.sides):
                why = scenario.lacking
                return _of(side, Text(f"its weights cannot all be read: {why}", f"权重未能全部读出：{why}"))
        return None

    def _failed(
        self,
        item: Item,
        dtypes: tuple[str, str],
        seen: Sequence[Observation],
        outcomes: Sequence[Outcome | None],
    ) -> Met:
        """A case that at least one of them gives no tensors for."""
        said = [
            _of(side, one.failed.summary)
            for side, one in zip(self.sides, seen, strict=True)
            if one.failed is not None
        ]
        says = Text("; ".join(t.en for t in said), "；".join(t.zh for t in said))
        place = next((one.failed.place for one in seen if one.failed and one.failed.place), None)
        if any(isinstance(outcome, NotOffered) for outcome in outcomes):
            return Met(item, dtypes, NOT_COMPARED, says=says)
        alike = all(one.failed is not None for one in seen) and len(set(map(_class_of, outcomes))) == 1
        return Met(item, dtypes, BOTH_RAISE if alike else PART, says=says, place=place)

    def _tensors(
        self,
        item: Item,
        dtypes: tuple[str, str],
        questions: Sequence[Question],
        seen: Sequence[Observation],
    ) -> Met:
        """Every tensor that both made visible, in the order of the program."""
        wrong = _shapes_differ(seen)
        found: list[Compared] = []
        question = questions[0]
        for step, want in enumerate(question.bench.expected(question.scenario)):
            for name, exact in {**want.taps, **want.outputs}.items():
                if name in want.taps and name not in want.outputs and not _told(question.scenario, exact):
                    continue
                pair = [one.steps[step].find(name) for one in seen if step < len(one.steps)]
                if len(pair) == 2 and pair[0] is not None and pair[1] is not None:
                    compared = self._tensor(questions, step, name, exact, (pair[0], pair[1]))
                    if compared is not None:
                        found.append(compared)
        parts = wrong is not None or any(not tensor.agrees for tensor in found)
        if not found and not parts:
            nothing = Text("no tensor that both make visible", "没有双方都可见的张量")
            return Met(item, dtypes, NOT_COMPARED, says=nothing)
        return Met(item, dtypes, PART if parts else AGREE, tuple(found), wrong)

    def _tensor(
        self,
        questions: Sequence[Question],
        step: int,
        name: str,
        exact: Named[Array],
        pair: tuple[Named[Array], Named[Array]],
    ) -> Compared | None:
        """One tensor of both; None where nothing of it counts."""
        question = questions[0]
        allowed = [
            Named(exact.axes, question.bench.allowed(question.scenario, dtype, step, name))
            for dtype in (q.dtype for q in questions)
        ]
        counts = np.isfinite(exact.array) & self._counted(question, step, exact)
        counted = Named(exact.axes, counts)
        a, b = pair
        if a.array.shape != b.array.shape or a.array.shape != exact.array.shape:
            # A model that gives its last position's logits alone is compared there.
            a, b, exact, counted, *allowed = map(_last_of, (a, b, exact, counted, *allowed))
        off = [
            compare(name, t, exact.array, own.array, counted.array).margin
            for t, own in zip((a, b), allowed, strict=True)
        ]
        both = np.isnan(a.array.astype(float)) & np.isnan(b.array.astype(float))
        if both.any():  # the same of both, which a comparison with what is right would not have so
            a, b = (Named(t.axes, np.where(both, 0.0, t.array)) for t in (a, b))
        dtypes = [q.dtype for q in questions]
        least = allowed[dtypes.index(lower(dtypes))]
        result = compare(name, b, a.array, least.array, counted.array)
        if result.margin is None or result.evidence is None:
            return None
        place = tuple(result.evidence.index.values())
        return Compared(
            name,
            step,
            exact.axes,
            result.margin,
            dict(result.evidence.index),
            (float(a.array[place]), float(b.array[place])),
            float(exact.array[place]),
            float(result.evidence.tolerance),
            (off[0], off[1]),
        )

    def _counted(self, question: Question, step: int, exact: Named[Array]) -> Array:
        """Where a tensor has a value that somebody defines: not at padding, nor where no key is visible."""
        counts = question.counted(step, exact)
        result = np.ones(exact.array.shape, bool) if counts is None else counts
        undefined = question.scenario.operation.undefined
        if undefined is not None:
            mask = question.mask(step, undefined)
            result = result & spread_over(Named(mask.axes, ~mask.array), exact.axes)
        return np.asarray(np.broadcast_to(result, exact.array.shape))


def _told(scenario: Scenario, tensor: Named[Array]) -> bool:
    """Whether a tap can be compared: in a padded batch, not along tokens that may be padding."""
    return "attention_mask" not in scenario.given or not OF_TOKENS & set(tensor.axes)


def _last_of(tensor: Named[Array]) -> Named[Array]:
    return last_position(tensor) if "query" in tensor.axes else tensor


def _of(side: Side, said: Text) -> Text:
    """A sentence about one side."""
    return Text(f"{side.letter}: {said.en}", f"{side.letter}：{said.zh}")


def _class_of(outcome: Outcome | None) -> str:
    """What kind of end a call came to: the exception's class, or how else it failed."""
    return outcome.type if isinstance(outcome, Raised) else type(outcome).__name__


def _shapes_differ(seen: Sequence[Observation]) -> Text | None:
    """What is to be said where an output has two shapes."""
    for name in {**seen[0].shapes, **seen[1].shapes}:
        if "." in name:
            continue
        got = []
        for one in seen:
            if name in one.shapes:
                got.append(one.shapes[name][1])
            elif one.steps and name in one.steps[0].outputs:
                got.append(one.steps[0].outputs[name].array.shape)
        if len(got) == 2 and got[0] != got[1]:
            return Text(
                f"`{name}` has shape {list(got[0])} in A and {list(got[1])} in B",
                f"`{name}` 的形状在 A 中为 {list(got[0])}，在 B 中为 {list(got[1])}",
            )
    return None
