"""ONNX operators in NumPy, as far as masks, positions, sizes and layouts are made of them.

Not a runtime: nothing here multiplies activations by weights. An operator that is missing makes
what depends on it unknown, which is an honest answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]
Attributes: TypeAlias = Mapping[str, Any]
Inputs: TypeAlias = Sequence[Array | None]
Operator: TypeAlias = Callable[[Inputs, Attributes], Sequence[Array]]

DTYPES: Mapping[int, Any] = {
    1: np.float32,
    2: np.uint8,
    3: np.int8,
    4: np.uint16,
    5: np.int16,
    6: np.int32,
    7: np.int64,
    9: np.bool_,
    10: np.float16,
    11: np.float64,
    12: np.uint32,
    13: np.uint64,
    16: np.float32,  # bfloat16: its values are float32's
}


def given(inputs: Inputs, index: int) -> Array | None:
    """An optional input."""
    return inputs[index] if index < len(inputs) else None


def need(inputs: Inputs, index: int) -> Array:
    """An input that must be there. Raises `ValueError`."""
    value = given(inputs, index)
    if value is None:
        raise ValueError(f"input {index} is missing")
    return value


def integers(value: Array | Sequence[int] | None) -> list[int]:
    """A list of axes or sizes, from an input or an attribute."""
    return [] if value is None else [int(v) for v in np.asarray(value).reshape(-1)]


def _unary(function: Callable[[Array], Any]) -> Operator:
    return lambda x, _: [np.asarray(function(need(x, 0)))]


def _binary(function: Callable[[Array, Array], Any]) -> Operator:
    return lambda x, _: [np.asarray(function(need(x, 0), need(x, 1)))]


def _several(function: Callable[[Array, Array], Any]) -> Operator:
    def apply(inputs: Inputs, _: Attributes) -> Sequence[Array]:
        result = need(inputs, 0)
        for i in range(1, len(inputs)):
            result = np.asarray(function(result, need(inputs, i)))
        return [result]

    return apply


def _divide(a: Array, b: Array) -> Any:
    if a.dtype.kind == "f":
        return a / b
    return (np.sign(a) * np.sign(b) * (np.abs(a) // np.abs(b))).astype(a.dtype)


def _modulo(inputs: Inputs, attributes: Attributes) -> Sequence[Array]:
    function: Any = np.fmod if attributes.get("fmod") else np.mod
    return [np.asarray(function(need(inputs, 0), need(inputs, 1)))]


def _power(a: Array, b: Array) -> Any:
    return np.power(a, b).astype(a.dtype)


def erf(x: Array) -> Array:
    """The error function."""
    return np.asarray(np.vectorize(math.erf, otypes=[np.float64])(x)).astype(x.dtype)


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x))."""
    return np.asarray(1 / (1 + np.exp(-x)))


def _gelu(x: Array, attributes: Attributes) -> Array:
    if attributes.get("approximate") == "tanh":
        return _tanh_gelu(x)
    return np.asarray(x * (1 + erf(x / math.sqrt(2))) / 2)


def _tanh_gelu(x: Array) -> Array:
    return np.asarray(x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2)


def _biased(inputs: Inputs, function: Callable[[Array], Array]) -> Sequence[Array]:
    bias = given(inputs, 1)
    x = need(inputs, 0)
    return [function(x if bias is None else x + bias)]


def _cast(inputs: Inputs, attributes: Attributes) -> Sequence[Array]:
    return [need(inputs, 0).astype(DTYPES[int(attributes["to"])])]


def _cast_like(inputs: Inputs, _: Attributes) -> Sequence[Array]:
    return [need(inputs, 0).astype(need(inputs, 1).dtype)]


def _clip(inputs: Inputs, attributes: Attributes) -> Sequence[Array]:
    low, high = given(inputs, 1), given(inputs, 2)
    low_value = attributes.get("min") if low is None else low
    high_value = attributes.get("max") if high is None else high
    if low_value is None and high_value is None:
        return [need(inputs, 0)]
    return [np.clip(need(inputs, 0), low_value, high_value)]


def _reduction(function: Callable[..., Any]) -> Operator:
    def apply(inputs: Inputs, attributes: Attributes) -> Sequence[Array]:
        x = need(inputs, 0)
        axes = integers(given(inputs, 1)) or integers(attributes.get("axes"))
        if not axes and attributes.get("noop_with_empty_axes"):
            return [x]
        keep = bool(attributes.get("keepdims", 1))
        return [np.asarray(function(x, axis=tuple(axes) or None, keepdims=keep)).astype(x.dtype)]

    return apply


def _cumulative(inputs: Inputs, attributes: Attributes) -> Sequence[Array]:
    x, axis = need(inputs, 0), int(need(inputs, 1).reshape(-1)[0])
    if attributes.get("reverse"):
        x = np.flip(x, axis)
    total = np.cumsum(x, axis=axis, dtype=x.dtype)
    if attributes.get("exclusive"):
        total = total - x
    return [np.flip(total, axis) if attributes.get("reverse") else total]


def _softmax(inputs: Inputs, attributes: Attributes) -> Sequence[Array]:
    x, axis = need(inputs, 0), int(attributes.get("axis", -1))
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return [e / e.sum(axis=axis, keepdims=True)]


def _arg_max(inputs: Inputs, attributes: Attributes) -> Sequence[Array]:
    axis = int(attributes.get("axis", 0))
    return [np.asarray(np.argmax(need(inputs, 0), axis=axis, keepdims=bool(attributes.get("keepdims", 1))))]


ELEMENTWISE: Mapping[str, Operator] = {
    "Abs": _unary(np.abs),
    "Neg": _unary(np.negative),
    "Exp": _unary(np.exp),
    "Log": _unary(np.log),
    "Sqrt": _unary(np.sqrt),
    "Reciprocal": _unary(lambda x: 1 / x),
    "Cos": _unary(np.cos),
    "Sin": _unary(np.sin),
    "Tanh": _unary(np.tanh),
    "Sigmoid": _unary(sigmoid),
    "Erf": _unary(erf),
    "Floor": _unary(np.floor),
    "Ceil": _unary(np.ceil),
    "Round": _unary(np.round),
    "Not": _unary(np.logical_not),
    "Sign": _unary(np.sign),
    "IsNaN": _unary(np.isnan),
    "IsInf": _unary(np.isinf),
    "Relu": _unary(lambda x: np.maximum(x, np.zeros((), x.dtype))),
    "Softplus": _unary(lambda x: np.log1p(np.exp(x))),
    "Identity": _unary(lambda x: x),
    "Gelu": lambda x, a: [_gelu(need(x, 0), a)],
    "FastGelu": lambda x, _: _biased(x, _tanh_gelu),
    "BiasGelu": lambda x, _: _biased(x, lambda y: _gelu(y, {})),
    "QuickGelu": lambda x, a: [need(x, 0) * sigmoid(a.get("alpha", 1.702) * need(x, 0))],
    "Swish": lambda x, a: [need(x, 0) * sigmoid(a.get("alpha", 1.0) * need(x, 0))],
    "Cast": _cast,
    "CastLike": _cast_like,
    "Clip": _clip,
    "Add": _binary(np.add),
    "Sub": _binary(np.subtract),
    "Mul": _binary(np.multiply),
    "Div": _binary(_divide),
    "Pow": _binary(_power),
    "Mod": _modulo,
    "Sum": _several(np.add),
    "Max": _several(np.maximum),
    "Min": _several(np.minimum),
    "Equal": _binary(np.equal),
    "Less": _binary(np.less),
    "LessOrEqual": _binary(np.less_equal),
    "Greater": _binary(np.greater),
    "GreaterOrEqual": _binary(np.greater_equal),
    "And": _binary(np.logical_and),
    "Or": _binary(np.logical_or),
    "Xor": _binary(np.logical_xor),
    "BitwiseAnd": _binary(np.bitwise_and),
    "BitwiseOr": _binary(np.bitwise_or),
    "Where": lambda x, _: [np.where(need(x, 0), need(x, 1), need(x, 2))],
}
"""Operators whose result has the shape to which their inputs broadcast."""

REDUCTIONS: Mapping[str, Operator] = {
    "ReduceMean": _reduction(np.mean),
    "ReduceSum": _reduction(np.sum),
    "ReduceMax": _reduction(np.max),
    "ReduceMin": _reduction(np.min),
    "ReduceProd": _reduction(np.prod),
    "CumSum": _cumulative,
    "Softmax": _softmax,
    "ArgMax": _arg_max,
}
