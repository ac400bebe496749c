"""`conformance export TARGET`: exported, checked, read, compared with its source and the program, graded."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

from conformance.exporting.agreement import compared, compared_with, summary
from conformance.exporting.files import Step, checked, data_file
from conformance.exporting.graded import graded, inspected
from conformance.exporting.module import Exported, Request

KNOWN = (
    (
        "RotaryEmbedding",
        (
            "the exporter writes one table of angles for all sequences, and onnxruntime wants one for each: "
            "--opset 24 or 18, or let the map hand the module its positions"
        ),
    ),
)
"""What exporters are known to get wrong: a part of what then fails, and what to do."""


def checks(request: Request, made: Exported, named: str, report: Path) -> Iterator[Step]:
    """Everything that is done with an exported file, one after the other.

    `named` is how the report in the folder `report` calls it.
    """
    steps = [Step("export", True, _sizes(made, request), made.seconds)]
    yield steps[0]

    def run() -> tuple[bool, str]:
        return graded(made.file, named, request.made.variant, request.made.pack, report, steps)

    todo: tuple[tuple[str, Callable[[], tuple[bool, str]]], ...] = (
        ("checker", lambda: _checker(made)),
        ("inspect", lambda: inspected(made.file)),
        ("source", lambda: _source(request, made)),
        ("program", lambda: _program(request, made)),
        ("run", run),
    )
    for name, check in todo:
        begun = time.perf_counter()
        try:
            passed, said = check()
        except ValueError as error:
            passed, said = False, str(error)
        if not passed:
            said += advice(said)
        steps.append(Step(name, passed, said, time.perf_counter() - begun))
        yield steps[-1]


def advice(said: str) -> str:
    """What is known of a failure, to be added to it."""
    found = next((then for what, then in KNOWN if what in said), None)
    return f"; {found}" if found else ""


def _sizes(made: Exported, request: Request) -> str:
    """How large the file is beside what it has to hold."""
    apart = data_file(made.file)
    total = made.file.stat().st_size + (apart.stat().st_size if apart.is_file() else 0)
    width = {"float16": 2, "bfloat16": 2, "float64": 8}.get(request.dtype, 4)
    own = f"{made.parameters * width:,} are its {made.parameters:,} parameters"
    return f"opset {request.opset}, {request.dtype}; {total:,} bytes, of which {own}"


def _checker(made: Exported) -> tuple[bool, str]:
    against = checked(made.file)
    return not against, against or "passes"


def _source(request: Request, made: Exported) -> tuple[bool, str]:
    """Whether the file is still the module, at sizes that the exporter has not seen."""
    tried = list(compared_with(made.file, request.made, request.dtype, request.cache, made.logits))
    return summary(tried, "the module")


def _program(request: Request, made: Exported) -> tuple[bool, str]:
    """Whether it is what the document says; a module that is not has been exported faithfully all the same."""
    tried = list(compared(made.file, request.made, request.dtype, request.cache))
    return summary(tried, "the program in float64")
