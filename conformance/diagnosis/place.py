"""Where in the target's own source a failure begins: a second, traced call, after something failed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from conformance.diagnosis.changes import Patches
from conformance.diagnosis.discovery import SURE, Finding, WrongTensor, best, edited, place_of
from conformance.diagnosis.fit import UNREADABLE, Fitter, Suspect
from conformance.diagnosis.not_finite import first
from conformance.diagnosis.stages import first_wrong, first_wrong_stage
from conformance.judging.common import Question
from conformance.judging.observe import call_of
from conformance.language.arithmetic import Float64
from conformance.language.program import Text
from conformance.plan.scenario import Tensors
from conformance.results.records import Place
from conformance.session import Call
from conformance.session.tracing import Trace

TRACES = 4
"""Traced calls of one operation: the same line is not looked for a hundred times."""


@runtime_checkable
class Tracer(Protocol):
    """A session that can make a call under a trace."""

    def trace(self, call: Call, dtype: str) -> Trace:
        """Make a call again and record every array that the target's own files bind."""


@dataclass
class Locator:
    """Finds places; what was found of a mistake in an operation holds for all its failures."""

    fitter: Fitter
    traces: dict[str, Trace] = field(default_factory=dict)
    counted: dict[str, int] = field(default_factory=dict)
    known: dict[tuple[str, str, tuple[str, ...]], Finding] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    nodes: dict[str, Finding | None] = field(default_factory=dict)

    def find(self, question: Question, suspects: Sequence[Suspect], *, failed: bool) -> Finding | None:
        """The first wrong array of a failed scenario, by the named mistakes or without a name.

        `failed` says whether what came back was wrong. Where it was right, only what the target does
        to its inputs can be found.
        """
        if question.bench.graph is not None:
            return self.in_graph(question)
        operation = question.scenario.operation.name
        for suspect in suspects:
            finding = self.known.get((operation, question.scenario.variant.name, suspect.names))
            if finding is not None:
                return finding
        trace = self.trace(question)
        if trace is None:
            return None
        scenario = question.scenario
        inputs = [t.array for given in (*scenario.steps(), scenario.parameters) for t in given.values()]
        if not failed and not suspects:
            return edited(trace.records, inputs)
        wrong = [w for w in (self.wrong(question, suspect) for suspect in suspects) if w is not None]
        true = scenario.read(Float64(), inner=True)
        stage = None if suspects else first_wrong(question)
        shown = None if stage is None else WrongTensor(stage.tap, stage.step, stage.got)
        finding = best(trace.records, true, wrong, question.dtype, inputs, shown)
        if finding is not None and finding.rank >= SURE:
            for suspect in suspects:
                self.known[(operation, scenario.variant.name, suspect.names)] = finding
        return finding

    def first_not_finite(self, question: Question) -> tuple[Text, Place] | None:
        """Where NaN or Inf first appears in a call that gave some; None where nothing was recorded."""
        trace = self.trace(question)
        found = None if trace is None else first(trace.records)
        return None if found is None else (found[0], place_of(found[1]))

    @staticmethod
    def wrong(question: Question, suspect: Suspect) -> tuple[list[Tensors], Patches] | None:
        """What a mistake makes of a scenario, and the equations that it replaces; None where it cannot be read."""
        program = question.scenario.pack.program
        try:
            patched = question.scenario.read(Float64(), suspect.program, inner=True)
        except UNREADABLE:
            return None
        return patched, frozenset(key for name in suspect.names for key in program.mistakes[name].replace)

    def in_graph(self, question: Question) -> Finding | None:
        """The node of the first stage that is wrong; looked for once in each scenario."""
        key = f"{question.scenario.key}/{question.dtype}"
        if key not in self.nodes:
            self.nodes[key] = first_wrong_stage(question)
        return self.nodes[key]

    def trace(self, question: Question) -> Trace | None:
        """The traced call of a scenario; None where the target cannot be traced, or was often enough."""
        session = question.bench.session
        if not isinstance(session, Tracer):
            return None
        key = f"{question.scenario.key}/{question.dtype}"
        operation = question.scenario.operation.name
        if key not in self.traces:
            if self.counted.get(operation, 0) >= TRACES:
                return None
            self.counted[operation] = self.counted.get(operation, 0) + 1
            expected = question.bench.expected(question.scenario)
            shapes = [step.shapes for step in expected]
            self.traces[key] = session.trace(
                call_of(question.scenario, tap=False, expect=shapes), question.dtype
            )
            self.notes += [note for note in self.traces[key].notes if note not in self.notes]
        return self.traces[key]
