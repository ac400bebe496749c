"""`conformance export TARGET`: exported, checked, read, compared with its source and the program, graded."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

from conformance.exporting.agreement import compared, compared_with, summary
from conformance.exporting.files import PASSES, Step, both, checked, data_file
from conformance.exporting.graded import graded, inspected
from conformance.exporting.module import Exported, Request
from conformance.exporting.program_export import PROGRAM
from conformance.language.program import Text

KNOWN = (
    (
        "RotaryEmbedding",
        Text(
            "the exporter writes one table of angles for all sequences, and onnxruntime wants one for each: "
            "--opset 24 or 18, or let the map hand the module its positions",
            "导出器为所有序列只写一张角度表，而 onnxruntime 要求每个序列一张："
            "请用 --opset 24 或 18，或在映射中把位置交给模块",
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

    def run() -> tuple[bool, Text]:
        return graded(made.file, named, request.made.variant, request.made.pack, report, steps)

    todo: tuple[tuple[str, Callable[[], tuple[bool, Text]]], ...] = (
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
            passed, said = False, both(str(error))
        if not passed:
            said = Text(said.en + advice(said.en).en, said.zh + advice(said.en).zh)
        steps.append(Step(name, passed, said, time.perf_counter() - begun))
        yield steps[-1]


def advice(said: str) -> Text:
    """What is known of a failure, to be added to it."""
    found = next((then for what, then in KNOWN if what in said), None)
    return Text(f"; {found.en}", f"；{found.zh}") if found else both("")


def _sizes(made: Exported, request: Request) -> Text:
    """How large the file is beside what it has to hold."""
    apart = data_file(made.file)
    total = made.file.stat().st_size + (apart.stat().st_size if apart.is_file() else 0)
    width = {"float16": 2, "bfloat16": 2, "float64": 8}.get(request.dtype, 4)
    own, kind = f"{made.parameters * width:,}", f"opset {request.opset}, {request.dtype}"
    return Text(
        f"{kind}; {total:,} bytes, of which {own} are its {made.parameters:,} parameters",
        f"{kind}；{total:,} 字节，其中 {own} 字节是 {made.parameters:,} 个参数",
    )


def _checker(made: Exported) -> tuple[bool, Text]:
    against = checked(made.file)
    return not against, both(against) if against else PASSES


def _source(request: Request, made: Exported) -> tuple[bool, Text]:
    """Whether the file is still the module, at sizes that the exporter has not seen."""
    tried = list(compared_with(made.file, request.made, request.dtype, request.cache, made.logits))
    return summary(tried, Text("the module", "模块"))


def _program(request: Request, made: Exported) -> tuple[bool, Text]:
    """Whether it is what the document says; a module that is not has been exported faithfully all the same."""
    tried = list(compared(made.file, request.made, request.dtype, request.cache))
    return summary(tried, PROGRAM)
