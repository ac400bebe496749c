"""An exported file as a stranger meets it: its structure read, and all claims put to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from conformance.exporting.files import Step, both
from conformance.exporting.program import declaration
from conformance.language.program import Text
from conformance.pack.model import Pack, Variant
from conformance.results.store import Writer, read_results


def inspected(file: Path) -> tuple[bool, Text]:
    """What is read off the graph; sizes that are declared free and are not, and chance, are faults."""
    from conformance.onnx.child import ReadingFailed
    from conformance.onnx.inspection import inspect
    from conformance.onnx.reading import Unreadable

    try:
        facts = inspect(file)
    except Unreadable as error:
        return False, both(error.message)
    except ReadingFailed as failed:
        return False, both(str(failed))
    for misfit in facts.misfits:
        where = f"{misfit.at.node} ({misfit.at.op_type}): {misfit.message}"
        return False, Text(f"a size is fixed: {where}", f"某个尺寸被写死：{where}")
    for place in facts.random:
        where = f"{place.node} ({place.op_type})"
        return False, Text(f"{where} draws random numbers", f"{where} 产生随机数")
    count, nodes = len(facts.attentions), facts.nodes
    return True, Text(
        f"{count} attentions, no fixed size, {nodes} nodes",
        f"{count} 个注意力，没有写死的尺寸，{nodes} 个节点",
    )


class _Noting(Writer):
    """Writes beside the results what else was done with the file."""

    def __init__(self, folder: Path, steps: Sequence[Step]) -> None:
        super().__init__(folder)
        self.steps = steps

    def write(self, line: Mapping[str, Any]) -> None:
        """One line; the first has the steps in its environment, where a report shows them."""
        if line.get("kind") == "run":
            done = {step.name: f"{'' if step.passed else 'fails: '}{step.said.en}" for step in self.steps}
            line = {**line, "environment": {**line["environment"], "export": done}}
        super().write(line)


def graded(
    file: Path, named: str, variant: Variant, pack: Pack, folder: Path, steps: Sequence[Step]
) -> tuple[bool, Text]:
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
        return False, both(error.message)
    results = read_results(folder)
    formats.write(results, "html", folder / "report.html", "en")
    page = folder / "report.html"
    if summary.conforms:
        passed = len(results.of_verdict("pass"))
        return True, Text(
            f"conforms in all it offers, {passed} verdicts; {page}",
            f"所提供的全部符合，{passed} 个判定；{page}",
        )
    if not summary.gradable:
        return False, Text("nothing of it could be graded", "没有可评的内容")
    cause = (results.end or {}).get("cause") or {}
    return False, Text(
        f"does not conform: {cause.get('en') or 'see the report'}; {page}",
        f"不符合：{cause.get('zh') or '见报告'}；{page}",
    )
