"""A file run beside the program's exact numbers, at sizes that the export has not seen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from conformance.exporting.made import Model
from conformance.exporting.names import input_name
from conformance.judging.spreads import Spreads
from conformance.language.arithmetic import Array, Float64, Native
from conformance.plan.scenario import Scenario, Tensors
from conformance.tolerance import tolerance

if TYPE_CHECKING:
    import onnx

PLAIN = ((3, (6,), ()), (1, (1,), ()), (2, (9,), (0, 3)))
CACHED = ((3, (4, 1, 3), ()), (1, (1, 1), ()), (2, (3, 2, 1), (0, 2)), (2, (5,), (1, 0)))
"""Batch, the lengths of the calls that share a cache, and padding of each sequence on the left."""


@dataclass(frozen=True)
class Tried:
    """One comparison: sizes, and by how many tolerances the worst element is off (more than 1 is wrong)."""

    batch: int
    schedule: tuple[int, ...]
    padding: tuple[int, ...]
    margin: float
    said: str = ""

    @property
    def agrees(self) -> bool:
        """Whether the file is right here."""
        return not self.said and self.margin <= 1.0

    def __str__(self) -> str:
        """`batch 3, tokens 4 + 1 + 3`."""
        padded = ", padded on the left" if any(self.padding) else ""
        return f"batch {self.batch}, tokens {' + '.join(map(str, self.schedule))}{padded}"


def compared(model: onnx.ModelProto, made: Model, dtype: str, cache: bool) -> Iterator[Tried]:
    """The file against the program in float64, call by call, at each of some sizes.

    Raises `ValueError` where onnxruntime does not load the file.
    """
    run = _Run(model)
    for batch, schedule, padding in CACHED if cache else PLAIN:
        scenario = made.scenario(batch, schedule, padding)
        expected = scenario.read(Float64(), inner=True)
        spreads = Spreads(lambda _, exact=expected: exact)  # type: ignore[misc]  # mypy: of a default
        past: Mapping[str, Array] | None = None
        native: list[Tensors] = []
        margin, said = 0.0, ""
        for step, tensors in enumerate(expected):
            try:
                logits, past = run.call(scenario, tensors, past)
            except ValueError as error:
                said = str(error)
                break
            output = scenario.main_output
            allowed = tolerance(spreads.sigma(scenario, dtype, step, output), dtype)
            exact = tensors.outputs[output].array
            off = _off(logits, exact, allowed)
            if made.mistake is not None and off.max(initial=0.0) > 1:
                # A mistake may leave the range of the dtype, as a softmax without its maximum does.
                native = native or scenario.read(Native(dtype))
                rounded = native[step].outputs[output].array
                off = np.where(_off(rounded, exact, allowed) > 1, 0.0, off)
            margin = max(margin, float(off.max(initial=0.0)))
        yield Tried(batch, schedule, padding, margin, said)


def _off(got: Array, expected: Array, allowed: Array) -> Array:
    """By how many tolerances each element is off. NaN is right where NaN is expected."""
    if got.shape != expected.shape:
        return np.full(expected.shape, np.inf)
    with np.errstate(all="ignore"):
        off = np.abs(got.astype(np.float64) - expected) / allowed
    same = (np.isnan(got) & np.isnan(expected)) | (got == expected)
    # Where the noise itself is not finite, anything is as right as anything else.
    return np.where(same | ~np.isfinite(allowed), 0.0, np.where(np.isfinite(off), off, np.inf))


class _Run:
    """A session with a file made here."""

    def __init__(self, model: onnx.ModelProto) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        try:
            self.session = onnxruntime.InferenceSession(
                model.SerializeToString(), options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # its classes are nothing but Exception
            raise ValueError(f"onnxruntime cannot load it: {_first_line(error)}") from None
        self.inputs = {value.name: value for value in self.session.get_inputs()}
        self.outputs = [value.name for value in self.session.get_outputs()]

    def call(
        self, scenario: Scenario, tensors: Tensors, past: Mapping[str, Array] | None
    ) -> tuple[Array, Mapping[str, Array]]:
        """One call: logits, and what goes into the next one."""
        feeds: dict[str, Any] = {}
        batch = tensors.outputs[scenario.main_output].array.shape[0]
        for name in scenario.pack.program.functions[scenario.function].given:
            if input_name(name) in self.inputs:
                value = tensors.inner[f"{scenario.function}.{name}~1"]
                array = value.array if value.axes[0] == "batch" else value.array[None]
                feeds[input_name(name)] = np.broadcast_to(array, (batch, array.shape[1])).astype(np.int64)
        for name, value in self.inputs.items():
            if name not in feeds:
                feeds[name] = past[name] if past is not None else _empty(value, batch)
        try:
            results = dict(zip(self.outputs, self.session.run(None, feeds), strict=True))
        except Exception as error:
            raise ValueError(f"onnxruntime: {_first_line(error)}") from None
        kept = {
            name.replace("present.", "past_key_values.", 1): array
            for name, array in results.items()
            if name != scenario.main_output
        }
        return results[scenario.main_output], kept


def _empty(value: Any, batch: int) -> Array:
    """A past of no tokens."""
    types = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(double)": np.float64}
    shape = [batch if size == "batch" else size if isinstance(size, int) else 0 for size in value.shape]
    return np.zeros(shape, types.get(value.type, np.float32))


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0][:300]
