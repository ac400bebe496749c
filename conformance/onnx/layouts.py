"""ONNX operators that move, repeat, join or cut numbers without computing with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from conformance.onnx.operators import DTYPES, Array, Attributes, Inputs, Operator, given, integers, need


def _transpose(inputs: Inputs, attributes: Attributes) -> Sequence[Array]:
    x = need(inputs, 0)
    return [np.transpose(x, integers(attributes.get("perm")) or None)]


def _reshape(inputs: Inputs, attributes: Attributes) -> Sequence[Array]:
    x = need(inputs, 0)
    shape = integers(need(inputs, 1))
    if not attributes.get("allowzero"):
        shape = [x.shape[i] if size == 0 else size for i, size in enumerate(shape)]
    try:
        return [x.reshape(shape)]
    except ValueError:
        raise ValueError(f"{list(x.shape)} does not fit into {shape}") from None


def _axes(inputs: Inputs, attributes: Attributes) -> list[int]:
    return integers(given(inputs, 1)) or integers(attributes.get("axes"))


def _unsqueeze(inputs: Inputs, attributes: Attributes) -> Sequence[Array]:
    return [np.expand_dims(need(inputs, 0), tuple(_axes(inputs, attributes)))]


def _squeeze(inputs: Inputs, attributes: Attributes) -> Sequence[Array]:
    return [np.squeeze(need(inputs, 0), tuple(_axes(inputs, attributes)) or None)]


def _expand(inputs: Inputs, _: Attributes) -> Sequence[Array]:
    x = need(inputs, 0)
    return [np.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(integers(need(inputs, 1)))))]


def _flatten(inputs: Inputs, attributes: Attributes) -> Sequence[Array]:
    x, axis = need(inputs, 0), int(attributes.get("axis", 1))
    axis += x.ndim if axis < 0 else 0
    return [x.reshape(int(np.prod(x.shape[:axis])), -1)]


def _slice(inputs: Inputs, attributes: Attributes) -> Sequence[Array]:
    x = need(inputs, 0)
    if len(inputs) > 1:
        starts, ends = integers(need(inputs, 1)), integers(need(inputs, 2))
        axes = integers(given(inputs, 3)) or list(range(len(starts)))
        steps = integers(given(inputs, 4)) or [1] * len(starts)
    else:
        starts, ends = integers(attributes["starts"]), integers(attributes["ends"])
        axes = integers(attributes.get("axes")) or list(range(len(starts)))
        steps = [1] * len(starts)
    index = [slice(None)] * x.ndim
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        stop: int | None = end
        if step < 0 and end < -x.shape[axis]:
            stop = None
        index[axis] = slice(start, stop, step)
    return [x[tuple(index)]]


def _split(inputs: Inputs, attributes: Attributes) -> Sequence[Array]:
    x, axis = need(inputs, 0), int(attributes.get("axis", 0))
    sizes = integers(given(inputs, 1)) or integers(attributes.get("split"))
    if not sizes:
        number = int(attributes.get("num_outputs") or attributes["_outputs"])
        step = -(-x.shape[axis] // number)
        sizes = [min(step, x.shape[axis] - i * step) for i in range(number)]
    if sum(sizes) != x.shape[axis]:
        raise ValueError(f"cannot split {x.shape[axis]} into {sizes}")
    return list(np.split(x, np.cumsum(sizes)[:-1], axis=axis))


def _concat(inputs: Inputs, attributes: Attributes) -> Sequence[Array]:
    return [np.concatenate([need(inputs, i) for i in range(len(inputs))], axis=int(attributes["axis"]))]


def _gather(inputs: Inputs, attributes: Attributes) -> Sequence[Array]:
    return [np.take(need(inputs, 0), need(inputs, 1), axis=int(attributes.get("axis", 0)))]


def _gather_elements(inputs: Inputs, attributes: Attributes) -> Sequence[Array]:
    return [np.take_along_axis(need(inputs, 0), need(inputs, 1), axis=int(attributes.get("axis", 0)))]


def _gather_nd(inputs: Inputs, attributes: Attributes) -> Sequence[Array]:
    if attributes.get("batch_dims"):
        raise NotImplementedError("GatherND with batch_dims")
    indices = need(inputs, 1)
    return [need(inputs, 0)[tuple(np.moveaxis(indices, -1, 0))]]


def _scatter_nd(inputs: Inputs, attributes: Attributes) -> Sequence[Array]:
    if attributes.get("reduction", "none") != "none":
        raise NotImplementedError("ScatterND with a reduction")
    out = np.array(need(inputs, 0))
    out[tuple(np.moveaxis(need(inputs, 1), -1, 0))] = need(inputs, 2)
    return [out]


def _tile(inputs: Inputs, _: Attributes) -> Sequence[Array]:
    return [np.tile(need(inputs, 0), integers(need(inputs, 1)))]


def _triangle(inputs: Inputs, attributes: Attributes) -> Sequence[Array]:
    k = given(inputs, 1)
    function = np.triu if attributes.get("upper", 1) else np.tril
    x = need(inputs, 0)
    keep = function(np.ones(x.shape[-2:], bool), k=0 if k is None else int(k.reshape(-1)[0]))
    return [np.where(keep, x, np.zeros((), x.dtype))]


def _range(inputs: Inputs, _: Attributes) -> Sequence[Array]:
    start, limit, delta = (need(inputs, i).reshape(-1)[0] for i in range(3))
    return [np.arange(start, limit, delta).astype(need(inputs, 0).dtype)]


def _constant_of_shape(inputs: Inputs, attributes: Attributes) -> Sequence[Array]:
    value = attributes.get("value")
    fill = np.zeros(1, np.float32) if value is None else np.asarray(value)
    return [np.broadcast_to(fill.reshape(()), tuple(integers(need(inputs, 0))))]


def _shape(inputs: Inputs, attributes: Attributes) -> Sequence[Array]:
    shape = need(inputs, 0).shape
    return [np.array(shape[attributes.get("start", 0) : attributes.get("end")], np.int64)]


def _size(inputs: Inputs, _: Attributes) -> Sequence[Array]:
    return [np.array(need(inputs, 0).size, np.int64)]


def _eye(inputs: Inputs, attributes: Attributes) -> Sequence[Array]:
    x = need(inputs, 0)
    return [
        np.eye(
            x.shape[0],
            x.shape[1],
            k=int(attributes.get("k", 0)),
            dtype=DTYPES[int(attributes.get("dtype", 1))],
        )
    ]


LAYOUTS: Mapping[str, Operator] = {
    "Transpose": _transpose,
    "Reshape": _reshape,
    "Unsqueeze": _unsqueeze,
    "Squeeze": _squeeze,
    "Expand": _expand,
    "Flatten": _flatten,
    "Slice": _slice,
    "Split": _split,
    "Concat": _concat,
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "ScatterND": _scatter_nd,
    "Tile": _tile,
    "Trilu": _triangle,
    "Dropout": lambda x, _: [need(x, 0), np.ones(need(x, 0).shape, bool)],
}
"""Operators of which the first input is data and the others, if any, say where it goes."""

SIZES: Mapping[str, Operator] = {
    "Range": _range,
    "ConstantOfShape": _constant_of_shape,
    "Shape": _shape,
    "Size": _size,
    "EyeLike": _eye,
}
"""Operators that need shapes only, or make numbers out of sizes."""

KNOWN_FROM_SHAPE = frozenset({"Shape", "Size", "EyeLike"})
"""Operators whose result is known although their input isn't."""
