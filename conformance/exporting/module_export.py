"""`conformance export TARGET`: exported, checked, and compared with its source and with the program."""

from __future__ import annotations

import time
from collections.abc import Iterator

from conformance.exporting.agreement import compared, compared_with, summary
from conformance.exporting.files import Step, checked, data_file
from conformance.exporting.module import Exported, Request


def checks(request: Request, made: Exported) -> Iterator[Step]:
    """Everything that is done with an exported file, one after the other."""
    yield Step("export", True, _sizes(made, request), made.seconds)
    for name, check in (("checker", _checker), ("source", _source), ("program", _program)):
        begun = time.perf_counter()
        try:
            passed, said = check(request, made)
        except ValueError as error:
            passed, said = False, str(error)
        yield Step(name, passed, said, time.perf_counter() - begun)


def _sizes(made: Exported, request: Request) -> str:
    """How large the file is beside what it has to hold."""
    apart = data_file(made.file)
    total = made.file.stat().st_size + (apart.stat().st_size if apart.is_file() else 0)
    width = {"float16": 2, "bfloat16": 2, "float64": 8}.get(request.dtype, 4)
    own = f"{made.parameters * width:,} are its {made.parameters:,} parameters"
    return f"opset {request.opset}, {request.dtype}; {total:,} bytes, of which {own}"


def _checker(request: Request, made: Exported) -> tuple[bool, str]:
    del request
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
