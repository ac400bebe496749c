"""`conformance export program`: emitted, and held against the program before it is written."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from conformance.exporting.agreement import compared, summary
from conformance.exporting.files import PASSES, Step, both, checked
from conformance.exporting.graph import Type
from conformance.exporting.made import ExportError, Model
from conformance.exporting.program import Wanted, emit
from conformance.language.errors import PackError
from conformance.language.program import Text

if TYPE_CHECKING:
    import onnx

PROGRAM = Text("the program in float64", "程序的 float64 结果")
MISTAKEN = Text("the program with this mistake in float64", "带有此错误的程序的 float64 结果")


def export_program(made: Model, cache: bool, dtype: Type, opset: int) -> tuple[onnx.ModelProto, list[Step]]:
    """The model of the program, and what the checks say of it.

    Raises `ExportError` where a mistake does not fit the sizes, and `PackError` for a pack at fault.
    """
    patched = frozenset(made.mistake.replace) if made.mistake is not None else frozenset()
    try:
        further = replace(made, mistake=None).scenario().parameters
        wanted = Wanted(made.scenario(), further, patched, cache, dtype, opset)
        model = emit(wanted)
    except PackError as error:
        if made.mistake is None:
            raise
        raise ExportError(
            f"the mistake '{made.mistake.id}' does not fit this model: {error.message}; "
            "another --variant, or other sizes with --size, may do"
        ) from None
    begun = time.perf_counter()
    against = checked(model)
    steps = [Step("checker", not against, both(against) if against else PASSES, time.perf_counter() - begun)]
    begun = time.perf_counter()
    try:
        tried = list(compared(model, made, dtype, cache))
    except ValueError as error:
        return model, [*steps, Step("program", False, both(str(error)), time.perf_counter() - begun)]
    what = PROGRAM if made.mistake is None else MISTAKEN
    passed, said = summary(tried, what)
    return model, [*steps, Step("program", passed, said, time.perf_counter() - begun)]
