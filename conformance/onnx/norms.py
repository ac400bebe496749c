"""Normalisations in a graph, as one operator or spelled out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from conformance.onnx.fused import NORMS, SKIP_NORMS
from conformance.onnx.partial import attributes_of
from conformance.onnx.walk import Walk

if TYPE_CHECKING:
    import onnx_ir as ir

LAYER_NORM, RMS_NORM = "layer_norm", "rms_norm"
TWICE = ("Sub", "ReduceMean")
"""Operators that a spelled-out norm may have twice, once for the variance and once for the quotient."""


@dataclass(frozen=True)
class Norm:
    """One normalisation over features. `gain` and `bias` are None where it has none."""

    kind: str
    node: ir.Node
    input: ir.Value
    output: ir.Value
    eps: float | None
    gain: ir.Value | None
    bias: ir.Value | None
    axis: int | None
    skip: ir.Value | None = None
    """Of a fused SkipLayerNormalization: the other summand; `total` is their sum, where it goes out."""
    total: ir.Value | None = None
    skip_bias: ir.Value | None = None

    @property
    def fused(self) -> bool:
        """Whether it is one operator."""
        return self.node.op_type in NORMS | SKIP_NORMS


def find_norms(walk: Walk) -> dict[ir.Value, Norm]:
    """All norms by their output."""
    found: dict[ir.Value, Norm] = {}
    for node in walk.graph:
        norm = _operator(walk, node) or _spelled_out(walk, node)
        if norm is not None:
            found[norm.output] = norm
    return found


def _operator(walk: Walk, node: ir.Node) -> Norm | None:
    name = node.op_type
    if name not in NORMS | SKIP_NORMS or node.inputs[0] is None:
        return None
    attributes = attributes_of(node)
    simplified = name in (
        "RMSNormalization",
        "SimplifiedLayerNormalization",
        "SkipSimplifiedLayerNormalization",
    )
    eps = float(attributes.get("epsilon", 1e-12 if name in SKIP_NORMS else 1e-5))
    skipping = name in SKIP_NORMS

    def at(index: int) -> ir.Value | None:
        return node.inputs[index] if index < len(node.inputs) else None

    offset = 2 if skipping else 1
    kind, output = RMS_NORM if simplified else LAYER_NORM, node.outputs[0]
    gain, bias = at(offset), None if simplified else at(offset + 1)
    if not skipping and _all(walk, gain, 1) and (bias is None or _all(walk, bias, 0)):
        # F.layer_norm without weights, as exporters write it: gain and shift come behind, if at all.
        own = _gain_and_shift(walk, output, kind)
        if own[1] is not None:
            output, gain, bias = own
    return Norm(
        kind,
        node,
        node.inputs[0],
        output,
        eps,
        gain,
        bias,
        int(attributes.get("axis", -1)),
        at(1) if skipping else None,
        node.outputs[3] if skipping and len(node.outputs) > 3 else None,
        at(offset + 1 if simplified else offset + 2) if skipping else None,
    )


def _spelled_out(walk: Walk, node: ir.Node) -> Norm | None:
    """The quotient x / √(mean(x²) + eps), from its root on; the mean is over x or over x minus its mean."""
    if node.op_type != "Sqrt" and not (
        node.op_type == "Pow" and walk.partial.number(node.inputs[1]) in (-0.5, 0.5)
    ):
        return None
    added = _back(walk, node.inputs[0])
    eps = None
    if added is not None and (plus := added.producer()) is not None and plus.op_type == "Add":
        for i in (0, 1):
            number = walk.partial.number(plus.inputs[i])
            if number is not None and walk.unknown(plus.inputs[1 - i]):
                eps, added = number, _back(walk, plus.inputs[1 - i])
    mean = None if added is None else added.producer()
    if mean is None or mean.op_type != "ReduceMean":
        return None
    square = _back(walk, mean.inputs[0])
    centred = None if square is None else _squared(walk, square)
    if centred is None:
        return None
    kind, start = RMS_NORM, centred
    minus = centred.producer()
    if minus is not None and minus.op_type == "Sub":
        inner = _back(walk, minus.inputs[1])
        average = None if inner is None else inner.producer()
        if average is not None and average.op_type == "ReduceMean" and minus.inputs[0] is not None:
            kind, start = LAYER_NORM, _back(walk, minus.inputs[0]) or minus.inputs[0]
    axes = attributes_of(mean).get("axes")
    known = walk.partial.known(mean.inputs[1]) if len(mean.inputs) > 1 else None
    axis = int(known.reshape(-1)[0]) if known is not None and known.size == 1 else None
    if axis is None and axes is not None and len(axes) == 1:
        axis = int(axes[0])
    return _finished(walk, kind, node, centred, start, eps, axis)


def _finished(
    walk: Walk,
    kind: str,
    root: ir.Node,
    centred: ir.Value,
    start: ir.Value,
    eps: float | None,
    axis: int | None,
) -> Norm | None:
    """From the root forward: the quotient, then gain and shift, as far as weights are applied."""
    value = root.outputs[0]
    quotient = None
    for _ in range(4):
        for node, _place in walk.readers(value):
            if node.op_type in ("Reciprocal", "Cast") or (
                node.op_type == "Div" and node.inputs[1] is value and not walk.unknown(node.inputs[0])
            ):
                value = node.outputs[0]
                break
            if node.op_type in ("Mul", "Div"):
                other = next((v for v in node.inputs if v is not value), None)
                if other is not None and _same(walk, other, centred):
                    quotient = node.outputs[0]
        if quotient is not None:
            break
    if quotient is None:
        return None
    start = _back(walk, start) or start
    output, gain, bias = _gain_and_shift(walk, quotient, kind)
    return Norm(kind, root, start, output, eps, gain, bias, axis)


def _all(walk: Walk, value: ir.Value | None, number: float) -> bool:
    """Whether a value is known, and each element is this number."""
    known = None if value is None else walk.partial.known(value)
    return known is not None and bool((known == number).all())


def _gain_and_shift(
    walk: Walk, normed: ir.Value, kind: str
) -> tuple[ir.Value, ir.Value | None, ir.Value | None]:
    """From what has mean 0 or size 1 on: (the norm's result, its gain, its shift), as far as weights are applied."""
    output, gain, bias = normed, None, None
    for _ in range(4):
        following = [node for node, _ in walk.readers(output)]
        if len(following) != 1:
            break
        node = following[0]
        if node.op_type == "Cast":
            output = node.outputs[0]
            continue
        other = next((v for v in node.inputs if v is not output and v is not None), None)
        if other is None or other not in walk.fixed or walk.partial.shape(other) is None:
            break
        if node.op_type == "Mul" and gain is None and len(walk.partial.shape(other) or ()) >= 1:
            gain, output = other, node.outputs[0]
        elif (
            node.op_type == "Add"
            and bias is None
            and kind == LAYER_NORM
            and len(walk.partial.shape(other) or ()) >= 1
        ):
            bias, output = other, node.outputs[0]
        else:
            break
    return output, gain, bias


def _back(walk: Walk, value: ir.Value | None) -> ir.Value | None:
    """A value before its casts."""
    while (
        value is not None and (node := value.producer()) is not None and node.op_type in ("Cast", "Identity")
    ):
        value = node.inputs[0]
    return value


def _same(walk: Walk, a: ir.Value, b: ir.Value) -> bool:
    """Whether two values are one, or the same difference from the same mean, worked out twice."""
    one, other = _back(walk, a), _back(walk, b)
    if one is other:
        return True
    left, right = (None if value is None else value.producer() for value in (one, other))
    if left is None or right is None or left.op_type != right.op_type or left.op_type not in TWICE:
        return False
    if len(left.inputs) != len(right.inputs) or attributes_of(left) != attributes_of(right):
        return False
    return all(_alike(walk, p, q) for p, q in zip(left.inputs, right.inputs, strict=True))


def _alike(walk: Walk, a: ir.Value | None, b: ir.Value | None) -> bool:
    if a is None or b is None:
        return a is b
    one, other = walk.partial.known(a), walk.partial.known(b)
    if one is not None and other is not None:
        return one.shape == other.shape and bool((one == other).all())
    return _same(walk, a, b)


def _squared(walk: Walk, value: ir.Value) -> ir.Value | None:
    """What a value is the square of."""
    node = value.producer()
    if node is None:
        return None
    if node.op_type == "Pow" and walk.partial.number(node.inputs[1]) == 2:
        return node.inputs[0]
    if node.op_type == "Mul" and node.inputs[0] is node.inputs[1]:
        return node.inputs[0]
    return None
