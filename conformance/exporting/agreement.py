"""A file run beside the program's exact numbers, at sizes that the export has not seen."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from conformance.exporting.made import Model
from conformance.exporting.names import input_name
from conformance.judging.spreads import Spreads
from conformance.language.arithmetic import Array, Float64, Native
from conformance.language.program import Text
from conformance.plan.scenario import Scenario, Tensors
from conformance.tolerance import joined, tolerance

if TYPE_CHECKING:
    import onnx

Sizes = tuple[int, tuple[int, ...], tuple[int, ...]]
"""Batch, the lengths of the calls that share a cache, and padding of each sequence on the left."""
PLAIN: tuple[Sizes, ...] = ((3, (6,), ()), (1, (1,), ()), (2, (9,), (0, 3)))
CACHED: tuple[Sizes, ...] = ((3, (4, 1, 3), ()), (1, (1, 1), ()), (2, (3, 2, 1), (0, 2)), (2, (5,), (1, 0)))


@dataclass(frozen=True)
class Tried:
    """One comparison: sizes, and by how many tolerances the worst element is off (more than 1 is wrong)."""

    batch: int
    schedule: tuple[int, ...]
    padding: tuple[int, ...]
    margin: float
    said: str = ""
    padding_differs: bool = False
    """Whether what stands at padding, which nobody reads, is not what the source has there."""

    @property
    def agrees(self) -> bool:
        """Whether the file is right here."""
        return not self.said and self.margin <= 1.0

    @property
    def sizes(self) -> Text:
        """`batch 3, tokens 4 + 1 + 3`."""
        tokens, padded = " + ".join(map(str, self.schedule)), any(self.padding)
        return Text(
            f"batch {self.batch}, tokens {tokens}{', padded on the left' if padded else ''}",
            f"批大小 {self.batch}，词元 {tokens}{'，左侧有填充' if padded else ''}",
        )

    def __str__(self) -> str:
        """The sizes in English."""
        return self.sizes.en


def compared(model: onnx.ModelProto | Path, made: Model, dtype: str, cache: bool) -> Iterator[Tried]:
    """The file against the program in float64, call by call, at each of some sizes.

    Of a file (a module's), what stands at padding nobody says, and one that takes no mask is asked for none.
    Raises `ValueError` where onnxruntime does not load the file.
    """
    run = Run(model)
    for sizes in run.tries(cache):
        scenario = made.scenario(*sizes)
        expected = scenario.read(Float64(), inner=True)
        spreads = Spreads(lambda _, exact=expected: exact)  # type: ignore[misc]  # mypy: of a default
        native: list[Tensors] = []
        margin, said = 0.0, ""
        try:
            for step, logits in enumerate(run.calls(scenario, expected)):
                output = scenario.main_output
                allowed = tolerance(spreads.sigma(scenario, dtype, step, output), dtype)
                exact = expected[step].outputs[output].array
                error = off(logits, exact, allowed)
                if made.mistake is not None and error.max(initial=0.0) > 1:
                    # A mistake may leave the range of the dtype, as a softmax without its maximum does.
                    native = native or scenario.read(Native(dtype))
                    rounded = native[step].outputs[output].array
                    error = np.where(off(rounded, exact, allowed) > 1, 0.0, error)
                if isinstance(model, Path) and logits.shape == exact.shape:
                    error = error[_real(scenario, expected[step])]
                margin = max(margin, float(error.max(initial=0.0)))
        except ValueError as error_of_call:
            said = str(error_of_call)
        yield Tried(*sizes, margin, said)


def compared_with(
    model: Path, made: Model, dtype: str, cache: bool, source: Mapping[Sizes, Sequence[Array]]
) -> Iterator[Tried]:
    """The file against what it was exported from, given by sizes and call: float arrays [batch, query, vocab].

    What stands at padding nobody says. Raises as `compared`.
    """
    run = Run(model)
    for sizes in run.tries(cache):
        scenario = made.scenario(*sizes)
        expected = scenario.read(Float64(), inner=True)
        spreads = Spreads(lambda _, exact=expected: exact)  # type: ignore[misc]  # mypy: of a default
        margin, said, apart = 0.0, "", False
        try:
            for step, logits in enumerate(run.calls(scenario, expected)):
                sigma = spreads.sigma(scenario, dtype, step, scenario.main_output)
                own = source[sizes][step]
                error = off(logits, own, tolerance(joined(sigma, sigma), dtype))
                if logits.shape == own.shape:
                    real = _real(scenario, expected[step])
                    apart |= bool((error[~real] > 1).any())
                    error = error[real]
                margin = max(margin, float(error.max(initial=0.0)))
        except ValueError as error_of_call:
            said = str(error_of_call)
        yield Tried(*sizes, margin, said, apart)


def _real(scenario: Scenario, tensors: Tensors) -> Array:
    """Which queries are no padding [batch, query]."""
    logits = tensors.outputs[scenario.main_output].array
    mask = tensors.inner[f"{scenario.function}.attention_mask~1"]
    rows = mask.array if mask.axes[0] == "batch" else mask.array[None]
    return np.broadcast_to(rows[:, -logits.shape[1] :], logits.shape[:2])


def off(got: Array, expected: Array, allowed: Array) -> Array:
    """By how many tolerances each element is off. NaN is right where NaN is expected."""
    if got.shape != expected.shape:
        return np.full(expected.shape, np.inf)
    with np.errstate(all="ignore"):
        off = np.abs(got.astype(np.float64) - expected) / allowed
    same = (np.isnan(got) & np.isnan(expected)) | (got == expected)
    # Where the noise itself is not finite, anything is as right as anything else.
    return np.where(same | ~np.isfinite(allowed), 0.0, np.where(np.isfinite(off), off, np.inf))


class Run:
    """A session with a file made here. Raises `ValueError` where onnxruntime does not load it."""

    def __init__(self, model: onnx.ModelProto | Path) -> None:
        """A model in memory, or a file."""
        self.masks = not isinstance(model, Path)
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        try:
            self.session = onnxruntime.InferenceSession(
                str(model) if isinstance(model, Path) else model.SerializeToString(),
                options,
                providers=["CPUExecutionProvider"],
            )
        except Exception as error:  # its classes are nothing but Exception
            raise ValueError(f"onnxruntime cannot load it: {_reason(error)}") from None
        self.inputs = {value.name: value for value in self.session.get_inputs()}
        self.masks |= input_name("attention_mask") in self.inputs
        self.outputs = [value.name for value in self.session.get_outputs()]

    def tries(self, cache: bool) -> Iterator[Sizes]:
        """The sizes to try it at."""
        for sizes in CACHED if cache else PLAIN:
            if self.masks or not any(sizes[2]):
                yield sizes

    def calls(self, scenario: Scenario, expected: Sequence[Tensors]) -> Iterator[Array]:
        """The logits of each call of a scenario, with what the one before it left. Raises `ValueError`."""
        past: Mapping[str, Array] | None = None
        for tensors in expected:
            logits, past = self.call(scenario, tensors, past)
            yield logits

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
                if not name.startswith("past_key_values."):
                    raise ValueError(f"it has an input {name!r}, which nothing is known of")
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
    # The batch stands first; what else is free is the length.
    shape = [batch if i == 0 else size if isinstance(size, int) else 0 for i, size in enumerate(value.shape)]
    return np.zeros(shape, types.get(value.type, np.float32))


def summary(tried: Sequence[Tried], what: Text) -> tuple[bool, Text]:
    """Whether all agree, and what is shown of it."""
    worst = max(tried, key=lambda t: (not t.agrees, t.margin))
    at = worst.sizes
    if not worst.agrees:
        off = f"{worst.margin:,.3g}"
        return False, Text(
            f"{worst.said or f'{off} tolerances off'}, at {at.en}",
            f"{worst.said or f'差 {off} 个容差'}，在{at.zh}",
        )
    padding = any(t.padding_differs for t in tried)
    return True, Text(
        f"as {what.en} at {len(tried)} sizes, at worst {worst.margin:.2f} of the tolerance ({at.en})"
        + ("; at padding, which nobody reads, it has other numbers" if padding else ""),
        f"在 {len(tried)} 种尺寸下与{what.zh}相同，最大误差为容差的 {worst.margin:.2f}（{at.zh}）"
        + ("；无人读取的填充处数值不同" if padding else ""),
    )


def _reason(error: Exception) -> str:
    """Why a session cannot be made; of an operator that the CPU provider lacks in a type, just that."""
    lacking = re.search(r"implementation for (\w+)\((\d+)\)", str(error))
    if lacking is not None:
        return f"its CPU provider has no {lacking[1]} (opset {lacking[2]}) in this dtype"
    return _first_line(error)


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0][:300]
