"""Files graded as `conformance run FILE` grades them, with nothing but the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from conformance.exporting.files import write
from conformance.exporting.made import Model
from conformance.exporting.program_export import export_program
from conformance.pack.model import Pack
from conformance.plan.selection import parse_selection
from conformance.results.store import Results, Writer, read_results
from conformance.runner import Options, run
from conformance.targets import resolve_target


def graded(
    made: Model, cache: bool, folder: Path, opset: int = 18, select: str = "", pack: Pack | None = None
) -> Results:
    """What a run says of an emitted model, by the pack that it was made from or by another."""
    model, steps = export_program(made, cache, "float32", opset)
    assert all(step.passed for step in steps), [str(step) for step in steps]
    file = folder / "model.onnx"
    write(model, file, external=False)
    options = Options(select=parse_selection([select], made.pack)) if select else Options()
    with Writer(folder / "report") as writer:
        run(pack or made.pack, resolve_target([str(file)]), options, writer)
    return read_results(folder / "report")


def end_of(results: Results) -> Any:
    """The last line."""
    assert results.end is not None
    return results.end
