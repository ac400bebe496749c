"""An exported file as a stranger meets it: its structure read, and all claims put to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from conformance.exporting.files import Step
from conformance.exporting.program import declaration
from conformance.pack.model import Pack, Variant
from conformance.results.store import Writer, read_results


def inspected(file: Path) -> tuple[bool, str]:
    """What is read off the graph; sizes that are declared free and are not, and chance, are faults."""
    from conformance.onnx.child import ReadingFailed
    from conformance.onnx.inspection import inspect
    from conformance.onnx.reading import Unreadable

    try:
        facts = inspect(file)
    except Unreadable as error:
        return False, error.message
    except ReadingFailed as failed:
        return False, str(failed)
    for misfit in facts.misfits:
        return False, f"a size is fixed: {misfit.at.node} ({misfit.at.op_type}): {misfit.message}"
    for place in facts.random:
        return False, f"{place.node} ({place.op_type}) draws random numbers"
    return True, f"{len(facts.attentions)} attentions, no fixed size, {facts.nodes} nodes"


class _Noting(Writer):
    """Writes beside the results what else was done with the file."""

    def __init__(self, folder: Path, steps: Sequence[Step]) -> None:
        super().__init__(folder)
        self.steps = steps

    def write(self, line: Mapping[str, Any]) -> None:
        """One line; the first has the steps in its environment, where a report shows them."""
        if line.get("kind") == "run":
            done = {step.name: f"{'' if step.passed else 'fails: '}{step.said}" for step in self.steps}
            line = {**line, "environment": {**line["environment"], "export": done}}
        super().write(line)


def graded(
    file: Path, named: str, variant: Variant, pack: Pack, folder: Path, steps: Sequence[Step]
) -> tuple[bool, str]:
    """`run` on the file, its results and report in `folder`, with `steps` in both; reports call it `named`."""
    from conformance.reports import formats
    from conformance.runner import Options, run
    from conformance.session import TargetError
    from conformance.targets import resolve_target

    # A graph does not say all of a variant; whoever exports it knows.
    target = replace(resolve_target([str(file)]), name=named, names={"variant": declaration(pack, variant)})
    try:
        with _Noting(folder, steps) as writer:
            summary = run(pack, target, Options(), writer)
    except TargetError as error:
        return False, error.message
    results = read_results(folder)
    formats.write(results, "html", folder / "report.html", "en")
    if summary.conforms:
        passed = len(results.of_verdict("pass"))
        return True, f"conforms in all it offers, {passed} verdicts; {folder / 'report.html'}"
    if not summary.gradable:
        return False, "nothing of it could be graded"
    cause = (results.end or {}).get("cause") or {}
    return False, f"does not conform: {cause.get('en') or 'see the report'}; {folder / 'report.html'}"
