"""From the JSON of a worker to outcomes. It comes from the submission's process: nothing is believed.

Whatever is not of the expected form raises `Malformed`, and then counts as no answer at all.
"""

import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy.typing as npt

from conformance.session.outcomes import NotOffered, Offer, Outcome, Output, Raised, Signature, Unusable
from conformance.worker.protocol import padded

SHOWN_BYTES = 64 * 1024  # of a tensor with a wrong shape that is still read, so that it can be shown
MAX_DIMENSIONS = 32
MAX_SEQUENCE = 10_000
_WIRE = {"<f2": 2, "<f4": 4, "<f8": 8, "<i8": 8, "|b1": 1}
_FLOATS = ("<f2", "<f4", "<f8")


class Malformed(Exception):
    """The answer does not have the form that the protocol gives it."""


class Announced(NamedTuple):
    """A tensor that the worker has, and bytes of its values; `wanted` says whether they are to be sent."""

    name: str
    declared: str
    wire: str
    shape: tuple[int, ...]
    size: int
    wanted: bool


@dataclass(frozen=True)
class AnnouncedOutput:
    """One output before its values have come."""

    tensors: tuple[Announced, ...]
    taps: tuple[Announced, ...]
    modified: tuple[str, ...]
    notes: tuple[str, ...]


def seconds_of(meta: Any) -> float:
    """Seconds inside the submission, as the worker measured them; 0 for nonsense."""
    value = meta.get("seconds") if isinstance(meta, dict) else None
    is_time = isinstance(value, int | float) and math.isfinite(value) and value >= 0
    return float(value) if is_time and value is not None else 0.0


def announced_outputs(
    meta: Mapping[str, Any], expected: Sequence[Mapping[str, tuple[int, ...]]], limit: int
) -> list[AnnouncedOutput]:
    """The outputs that an answer announces, and which of their tensors to ask for.

    Args:
        meta: JSON of the answer.
        expected: known shapes by name, one mapping for each output.
        limit: bytes that all tensors, and all taps, may have together.

    Raises:
        Malformed: it is not as the protocol says, or another number of outputs.
    """
    outputs = _list(meta.get("outputs"), len(expected))
    if len(outputs) != len(expected):
        raise Malformed
    left, left_for_taps = limit, limit
    result = []
    for entry, shapes in zip(outputs, expected, strict=True):
        output = _dict(entry)
        tensors = []
        for tensor in _list(output.get("tensors"), 16):
            item = _announced(tensor, _FLOATS)
            shape = shapes.get(item.name)
            most = left
            if shape is not None and shape != item.shape:
                # Another shape is read to be shown, or because it is a smaller form of the answer.
                most = min(left, max(SHOWN_BYTES, 8 * math.prod(shape)))
            item = item._replace(wanted=item.size <= most)
            left -= item.size if item.wanted else 0
            tensors.append(item)
        taps = []
        for tap in _list(output.get("taps"), 4096):
            item = _announced(tap, _WIRE)
            if item.size <= left_for_taps:
                item = item._replace(wanted=True)
                left_for_taps -= item.size
            taps.append(item)
        if not tensors:
            raise Malformed
        modified, notes = _strings(output.get("modified")), _strings(output.get("notes"))
        result.append(AnnouncedOutput(tuple(tensors), tuple(taps), modified, notes))
    return result


def wanted(outputs: Sequence[AnnouncedOutput]) -> tuple[list[int], list[list[Any]], int]:
    """What to ask for: positions among all that was announced, the table of it, and its bytes."""
    positions: list[int] = []
    table: list[list[Any]] = []
    position = size = 0
    for output in outputs:
        for item in (*output.tensors, *output.taps):
            if item.wanted:
                positions.append(position)
                table.append([item.wire, item.shape])
                size += padded(item.size)
            position += 1
    return positions, table, size


def number_of(outputs: Sequence[AnnouncedOutput]) -> int:
    """How many tensors and taps were announced."""
    return sum(len(output.tensors) + len(output.taps) for output in outputs)


def outputs_of(outputs: Sequence[AnnouncedOutput], arrays: Sequence[npt.NDArray[Any]]) -> tuple[Output, ...]:
    """The outputs with their values; `arrays` are those of `wanted`, in its order."""
    values = iter(arrays)
    result = []
    for output in outputs:
        tensors = {item.name: _frozen(next(values)) for item in output.tensors if item.wanted}
        taps = {item.name: _frozen(next(values)) for item in output.taps if item.wanted}
        result.append(
            Output(
                tensors=tensors,
                shapes={item.name: item.shape for item in output.tensors},
                dtypes={item.name: item.declared for item in output.tensors},
                taps=taps,
                tap_dtypes={item.name: item.declared for item in output.taps},
                modified=output.modified,
                notes=output.notes,
            )
        )
    return tuple(result)


def other_outcome(meta: Mapping[str, Any], printed: str) -> Outcome:
    """The outcome of an answer without tensors. Raises Malformed."""
    seconds = seconds_of(meta)
    match meta.get("is"):
        case "not_offered":
            return NotOffered(_string(meta.get("reason")), seconds=seconds, printed=printed)
        case "unusable":
            expected, got = _string(meta.get("expected")), _string(meta.get("got"))
            return Unusable(expected, got, _number(meta.get("step")), seconds=seconds, printed=printed)
        case "raised":
            return Raised(
                type=_string(meta.get("type")),
                message=_string(meta.get("message")),
                file=_optional_string(meta.get("file")),
                line=_number(meta.get("line")),
                text=_string(meta.get("text")),
                traceback=_string(meta.get("traceback")),
                step=_number(meta.get("step")),
                seconds=seconds,
                printed=printed,
            )
    raise Malformed


def offer_of(meta: Mapping[str, Any], versions: Mapping[str, str], printed: str, seconds: float) -> Offer:
    """The offer in the answer to a load request. Raises Malformed."""
    functions = {}
    for name, entry in _dict(meta.get("functions")).items():
        parameters, required, accepts_any, file, line = _list(entry, 5, exactly=True)
        functions[name] = Signature(
            _strings(parameters), _strings(required), bool(accepts_any), _optional_string(file), _number(line)
        )
    variants: list[str | Mapping[str, Any]] = []
    for variant in _list(meta.get("variants"), 64):
        if not isinstance(variant, str | dict):
            raise Malformed
        variants.append(variant)
    more = {name: _string(text) for name, text in _dict(meta.get("versions")).items()}
    return Offer(
        framework=_string(meta.get("framework")),
        dtypes=_strings(meta.get("dtypes")),
        dtype_declared=bool(meta.get("dtype_declared")),
        variants=tuple(variants),
        fully_masked=_optional_string(meta.get("fully_masked")),
        functions=functions,
        not_callable={name: _string(text) for name, text in _dict(meta.get("not_callable")).items()},
        others=_strings(meta.get("others")),
        parameter_shapes=bool(meta.get("parameter_shapes")),
        versions={**versions, **more},
        printed=printed,
        seconds=seconds,
    )


def _announced(entry: Any, wires: Container[str]) -> Announced:
    name, declared, wire, shape = _list(entry, 4, exactly=True)
    lengths = _list(shape, MAX_DIMENSIONS)
    if type(wire) is not str or wire not in wires:
        raise Malformed
    size = _WIRE[wire]
    for n in lengths:
        if type(n) is not int or not 0 <= n < 1 << 62:
            raise Malformed
        size *= n
    return Announced(_string(name), _string(declared), wire, tuple(lengths), size, wanted=False)


def _frozen(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    # Outcomes are remembered and handed out again.
    array.flags.writeable = False
    return array


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise Malformed
    return value


def _optional_string(value: Any) -> str | None:
    return None if value is None else _string(value)


def _number(value: Any) -> int | None:
    if value is not None and type(value) is not int:
        raise Malformed
    return value


def _list(value: Any, most: int, *, exactly: bool = False) -> list[Any]:
    if not isinstance(value, list) or len(value) > most or (exactly and len(value) != most):
        raise Malformed
    return value


def _strings(value: Any) -> tuple[str, ...]:
    return tuple(_string(item) for item in _list(value, MAX_SEQUENCE))


def _dict(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Malformed
    return value
