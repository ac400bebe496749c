"""Where in the target's own source a failure begins: a second, traced call, after something failed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from conformance.diagnosis.discovery import Finding, locate
from conformance.diagnosis.fit import UNREADABLE, Fitter, Suspect
from conformance.diagnosis.stages import first_wrong_stage
from conformance.judging.common import Question
from conformance.judging.observe import call_of
from conformance.language.arithmetic import Float64
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

    def find(self, question: Question, suspects: Sequence[Suspect]) -> Finding | None:
        """The first wrong array of a failed scenario, by the named mistakes or without a name."""
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
        true = question.scenario.read(Float64(), inner=True)
        program = question.scenario.pack.program
        for suspect in suspects:
            try:
                patched = question.scenario.read(Float64(), suspect.program, inner=True)
            except UNREADABLE:
                continue
            patches = frozenset(key for name in suspect.names for key in program.mistakes[name].replace)
            finding = locate(trace.records, true, patched, question.dtype, patches)
            if finding is not None and finding.by_mistake:
                self.known[(operation, question.scenario.variant.name, suspect.names)] = finding
                return finding
        return locate(trace.records, true, None, question.dtype)

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
