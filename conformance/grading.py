"""Grading one target: every claim that applies, in the order of the ladder, one verdict each.

Nothing here knows what a claim says. Kinds judge (`judging.kinds`), scenarios say what is called
(`plan.scenario`), the session survives it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from conformance.diagnosis.naming import Namer
from conformance.judging.bench import Bench
from conformance.judging.common import Question
from conformance.judging.convention import AVOIDS, RAISES
from conformance.judging.experiment import changed_parameters
from conformance.judging.kinds import KINDS, OF_GRAPHS
from conformance.judging.rounded import quantised
from conformance.language.errors import NOWHERE, PackError
from conformance.language.program import Text, holds, key_of
from conformance.onnx.raised import at_node
from conformance.pack.model import Case, Either, Operation, Pack, Variant
from conformance.plan import large
from conformance.plan.items import Item
from conformance.plan.scenario import Scenario
from conformance.plan.scenarios import Scenarios
from conformance.plan.variants import Graded
from conformance.results.records import Judgement, Verdict
from conformance.told import told

WITHOUT_WEIGHTS = frozenset({"experiment", "shape", "untouched", "raises", "convention"})
"""Kinds that compare a target with itself, or not at all: they need no weights of it."""


class EngineFault(Exception):
    """Our own fault while judging: never reported as the submission's."""

    def __init__(self, claim: str, case: str, cause: BaseException) -> None:
        """Which claim, on which case, and what went wrong."""
        super().__init__(f"judging {claim} on {case} failed: {type(cause).__name__}: {cause}")


@dataclass
class Grader:
    """Grades the items of a plan one by one; see `verdicts`."""

    pack: Pack
    bench: Bench
    graded: Graded
    scenarios: Scenarios
    settled: dict[tuple[str, str, str], Mapping[str, Any]]
    namer: Namer | None = None
    faults: list[str] = field(default_factory=list)
    """Of explanations: our own, and no reason to lose a verdict."""
    items: Sequence[Item] = ()
    made: dict[tuple[str, str, str], Scenario | None] = field(default_factory=dict)

    @staticmethod
    def of(pack: Pack, bench: Bench, graded: Graded, seed: int, scenarios: Scenarios | None = None) -> Grader:
        """A grader with nothing graded yet. `scenarios` of the seed are kept from before, if any.

        A graph's are its own: its cases have its sizes.
        """
        own = None if bench.graph is None else bench.graph.own
        if scenarios is None or own is not None:
            scenarios = Scenarios(pack, seed, own)
        return Grader(pack, bench, graded, scenarios, {}, Namer(pack, bench))

    def verdicts(
        self, items: Sequence[Item], started: Callable[[Item], None] = lambda _: None
    ) -> Iterator[Verdict]:
        """One verdict for each item, as it is reached. Raises `EngineFault` for a fault of ours."""
        return (verdict for _, verdict in self.graded_items(items, started))

    def graded_items(
        self, items: Sequence[Item], started: Callable[[Item], None] = lambda _: None
    ) -> Iterator[tuple[Item, Verdict]]:
        """As `verdicts`, each with what it is the verdict of."""
        self.items = items
        if self.namer is not None:
            self.namer.ahead = self.ahead
        for item in items:
            started(item)
            begun = time.perf_counter()
            judgement = self.judge(item)
            if judgement is None:
                continue
            judgement = replace(judgement, seconds=time.perf_counter() - begun)
            claim = item.claim
            variant = None if self.graded.undeclared else item.variant.name
            yield (
                item,
                Verdict(
                    claim.id,
                    claim.rung,
                    claim.level,
                    claim.statements,
                    item.case.id,
                    variant,
                    item.dtype,
                    judgement,
                ),
            )

    def scenario(self, case: Case, variant: Variant, dtype: str) -> Scenario | None:
        """A case in a variant, with the choices that its operation leaves open as the target follows them."""
        either = self.either(self.pack.operations[case.operation], variant, dtype)
        key = (case.id, variant.name, repr(either))
        if key not in self.made:
            self.made[key] = self.scenarios.of(case, variant, either)
        return self.made[key]

    def ahead(self, question: Question) -> list[Question]:
        """Comparisons of the same operation at other sizes, also those still to come: a name has to fit them too.

        What a fault makes at one size is often what another makes at all: 2 is √Dh of some heads, and √Tq of
        some texts. Only cases that give the same arguments: with a mask, another fault may join the first.
        Of a model this would cost more than it tells.
        """
        case = question.scenario.case
        operation = question.scenario.operation
        found: dict[frozenset[tuple[str, int]], Question] = {}
        if operation.model or self.bench.graph is not None:
            return []
        for item in self.items:
            if item.refusal is not None or (item.claim.kind, item.claim.operation) != (
                "golden",
                operation.name,
            ):
                continue
            if (item.variant.name, item.dtype) != (question.scenario.variant.name, question.dtype):
                continue
            if (item.case.given.keys(), item.case.choices) != (case.given.keys(), case.choices):
                continue
            scenario = self.scenario(item.case, item.variant, item.dtype)
            if scenario is None or not holds(item.claim.when, scenario.choices):
                continue
            other = Question(item.claim, scenario, item.dtype, self.bench)
            if self.beyond(other) is None and self.refused(other) is None:
                found.setdefault(frozenset(scenario.sizes.items()), other)
        return list(found.values())

    def judge(self, item: Item) -> Judgement | None:
        """The judgement of one item; None where the claim is about another form of the operation."""
        if item.refusal is not None:
            return Judgement("unsupported", item.refusal)
        own = self.scenarios.own
        if own is not None and self.pack.operations[item.case.operation].model:
            left_out = None if item.claim.kind in OF_GRAPHS else own.uncached(item.claim, item.case)
            if left_out is None and own.large:
                left_out = large.refusal(item.claim, item.case, own, self.pack)
            if left_out is not None:
                return Judgement("unsupported", left_out)
        try:
            scenario = self.scenario(item.case, item.variant, item.dtype)
            if scenario is None or not holds(item.claim.when, scenario.choices):
                return None
            question = Question(item.claim, scenario, item.dtype, self.bench)
            return (
                self.beyond(question)
                or self.refused(question)
                or self.explained(question, self.judged(question))
            )
        except PackError as error:
            if error.at != NOWHERE:
                raise
            raise PackError(f"'{item.claim.id}': {error.message}", item.claim.at, error.hint) from None
        except Exception as error:
            raise EngineFault(item.claim.id, item.case.id, error) from error

    def judged(self, question: Question) -> Judgement:
        """The judgement as its kind has it; what a runtime says of a graph, in terms of the graph."""
        judgement = KINDS[question.claim.kind].judge(question)
        return judgement if self.bench.graph is None else at_node(judgement)

    def explained(self, question: Question, judgement: Judgement) -> Judgement:
        """The judgement with the mistakes that explain it, where something failed."""
        if self.namer is None:
            return judgement
        try:
            self.namer.witness(question)
            return self.namer.explain(question, judgement) if judgement.verdict == "fail" else judgement
        except Exception as error:  # a verdict stands without its explanation
            self.faults.append(
                f"explaining {question.claim.id} on {question.scenario.case.id} failed: {error!r}"
            )
            return judgement

    @staticmethod
    def beyond(question: Question) -> Judgement | None:
        """`unsupported` where a target that brings its own sizes and weights cannot meet the case."""
        scenario = question.scenario
        if scenario.own is None:
            return None
        if question.claim.kind in OF_GRAPHS:
            left_out = quantised(question.claim, scenario.own.rounded)
            return None if left_out is None else Judgement("unsupported", left_out)
        refusal = scenario.own.refusal(scenario.case, scenario.given, scenario.parameters, scenario.choices)
        if refusal is None and scenario.lacking and question.claim.kind not in WITHOUT_WEIGHTS:
            refusal = Text(
                f"it cannot be compared with the document's model: {scenario.lacking}",
                f"无法与文档的模型比较：{told(scenario.lacking).zh}",
            )
        refusal = refusal or quantised(question.claim, scenario.own.rounded)
        if refusal is None and question.claim.kind == "experiment":
            absent = [
                n
                for n in changed_parameters(scenario, question.claim.body)
                if n not in scenario.own.parameters
            ]
            if absent:
                refusal = Text(
                    f"`{absent[0]}` is to be changed, and was not found in the file",
                    f"需要改动 `{absent[0]}`，但在该文件中没有找到",
                )
        return None if refusal is None else Judgement("unsupported", refusal)

    def refused(self, question: Question) -> Judgement | None:
        """`unsupported` where the target declares that it never meets what the case holds."""
        return None if question.claim.kind == "convention" else self.avoided(question)

    def avoided(self, question: Question) -> Judgement | None:
        """As `refused`, whatever the claim."""
        undefined = question.scenario.operation.undefined
        declared = self.bench.offer.fully_masked
        if undefined is None or declared not in (RAISES, AVOIDS):
            return None
        if not question.mask(0, undefined).array.any():
            return None
        return Judgement(
            "unsupported",
            Text(
                f'the case has rows without a visible key, and the file declares fully_masked = "{declared}"',
                f'该用例含有没有可见键的行，而文件声明了 fully_masked = "{declared}"',
            ),
        )

    # -- choices that a target need not declare -------------------------------------------------

    def either(self, operation: Operation, variant: Variant, dtype: str) -> Mapping[str, Any]:
        """The choices that an operation is seen to follow, where nothing declares them."""
        key = (operation.name, variant.name, dtype)
        if key not in self.settled:
            self.settled[key] = self._settle(operation, variant, dtype)
        return self.settled[key]

    def _settle(self, operation: Operation, variant: Variant, dtype: str) -> Mapping[str, Any]:
        candidates = list(self.candidates(operation, variant))
        if len(candidates) < 2:
            return candidates[0] if candidates else {}
        best: tuple[float, Mapping[str, Any]] = (float("inf"), candidates[0])
        for case in self.pack.cases.values():
            if case.operation != operation.name or case.tags:
                continue
            for candidate in candidates:
                scenario = self.scenarios.of(case, variant, candidate)
                if scenario is not None:
                    error = self._error(scenario, dtype)
                    if error < best[0]:
                        best = (error, candidate)
            if best[0] < float("inf"):
                break
        return best[1]

    def _error(self, scenario: Scenario, dtype: str) -> float:
        """The worst error of the main output in tolerances; infinite where there is none."""
        from conformance.judging.compare import compare

        seen = self.bench.observe(scenario, dtype)
        name = scenario.main_output
        if seen.failed is not None or any(name not in step.outputs for step in seen.steps):
            return float("inf")
        want = self.bench.expected(scenario)[0].outputs[name]
        found = compare(
            name, seen.steps[0].outputs[name], want.array, self.bench.allowed(scenario, dtype, 0, name)
        )
        return float("inf") if found.margin is None else found.margin

    def candidates(self, operation: Operation, variant: Variant) -> Iterator[Mapping[str, Any]]:
        """Every combination of an operation's free choices that the target may follow.

        A function that is given no config cannot know the variant, so it may follow any that the
        file declares; one that is given it follows the variant.
        """
        configured = any(a.everything == "config" for a in operation.arguments.values())
        if configured and not self.graded.undeclared:
            yield {}
            return
        yield from _combinations(
            {name: self._values(name, either) for name, either in operation.either.items()}
        )

    def _values(self, name: str, either: Either) -> Sequence[Any]:
        declared = {
            key_of(v.choices[name]): v.choices[name]
            for v in self.graded.declared
            if holds(either.when, v.choices) and key_of(v.choices[name]) in either.among
        }
        return list(declared.values()) or either.undeclared


def _combinations(fields: Mapping[str, Sequence[Any]]) -> Iterator[dict[str, Any]]:
    if not fields:
        yield {}
        return
    (name, values), *rest = fields.items()
    for value in values:
        for other in _combinations(dict(rest)):
            yield {name: value, **other}
