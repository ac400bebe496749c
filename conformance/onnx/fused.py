"""Shapes of what operators give that compute with activations: products, norms and whole attentions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from conformance.onnx.operators import Attributes

Shape: TypeAlias = tuple[int, ...]
Shapes: TypeAlias = Sequence[Shape | None]
ShapeOf: TypeAlias = Callable[[Shapes, Attributes], Sequence[Shape | None]]

NORMS = frozenset({"LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization"})
SKIP_NORMS = frozenset({"SkipLayerNormalization", "SkipSimplifiedLayerNormalization"})
ATTENTIONS = frozenset({"Attention", "MultiHeadAttention", "GroupQueryAttention"})


def _first(shapes: Shapes) -> Shape:
    if not shapes or shapes[0] is None:
        raise NotImplementedError("the shape of its first input is unknown")
    return shapes[0]


def _at(shapes: Shapes, index: int) -> Shape | None:
    return shapes[index] if index < len(shapes) else None


def product_shape(shapes: Shapes, attributes: Attributes) -> Shape:
    """The shape of a matrix product, computed without one. Raises `ValueError` where they do not fit."""
    a, b = _first(shapes), _at(shapes, 1)
    if b is None:
        raise NotImplementedError("the shape of its second input is unknown")
    if not a or not b:
        raise ValueError("a product with a number")
    left = (1, *a) if len(a) == 1 else a
    right = (*b, 1) if len(b) == 1 else b
    if left[-1] != right[-2]:
        raise ValueError(f"{list(a)} and {list(b)} cannot be multiplied")
    out = (*np.broadcast_shapes(left[:-2], right[:-2]), left[-2], right[-1])
    if len(a) == 1:
        out = (*out[:-2], out[-1])
    return out[:-1] if len(b) == 1 else out


def _fused_product(shapes: Shapes, attributes: Attributes) -> Sequence[Shape | None]:
    flipped = [
        (*shape[:-2], shape[-1], shape[-2]) if shape is not None and attributes.get(name) else shape
        for shape, name in zip(shapes, ("transA", "transB"), strict=False)
    ]
    return [product_shape(flipped, {})]


def _gemm(shapes: Shapes, attributes: Attributes) -> Sequence[Shape | None]:
    a, b = _first(shapes), _at(shapes, 1)
    if b is None:
        raise NotImplementedError("the shape of its second input is unknown")
    rows, inner = (a[1], a[0]) if attributes.get("transA") else (a[0], a[1])
    depth, columns = (b[1], b[0]) if attributes.get("transB") else (b[0], b[1])
    if inner != depth:
        raise ValueError(f"{list(a)} and {list(b)} cannot be multiplied")
    return [(rows, columns)]


def _einsum(shapes: Shapes, attributes: Attributes) -> Sequence[Shape | None]:
    equation = attributes["equation"].replace(" ", "")
    sides, _, out = equation.partition("->")
    sizes: dict[str, int] = {}
    for names, shape in zip(sides.split(","), shapes, strict=True):
        if shape is None or "." in names:
            raise NotImplementedError("an Einsum with an ellipsis")
        for name, size in zip(names, shape, strict=True):
            if sizes.setdefault(name, size) != size:
                raise ValueError(f"axis {name} of {equation} has sizes {sizes[name]} and {size}")
    return [tuple(sizes[name] for name in out)]


def _same(shapes: Shapes, _: Attributes) -> Sequence[Shape | None]:
    return [_first(shapes)]


def _skip(shapes: Shapes, _: Attributes) -> Sequence[Shape | None]:
    first = _first(shapes)
    return [first, None, None, first]


def _heads(shape: Shape, heads: int) -> tuple[int, int, int, int]:
    """Batch, heads, length and width, of 4 axes or of 3 with the heads side by side."""
    if len(shape) == 4:
        return shape[0], shape[1], shape[2], shape[3]
    return shape[0], heads, shape[1], shape[2] // heads


def _attention(shapes: Shapes, attributes: Attributes) -> Sequence[Shape | None]:
    """The operator of ai.onnx; past before present."""
    q, k, v = (_at(shapes, i) for i in range(3))
    if q is None or k is None or v is None:
        raise NotImplementedError("the shape of q, k or v is unknown")
    batch, heads, length, _width = _heads(q, int(attributes.get("q_num_heads") or 1))
    _, kv_heads, new, dh = _heads(k, int(attributes.get("kv_num_heads") or 1))
    value_width = _heads(v, kv_heads)[3]
    past = _at(shapes, 4)
    total = new + (past[2] if past else 0)
    out = (batch, length, heads * value_width) if len(q) == 3 else (batch, heads, length, value_width)
    present = (batch, kv_heads, total, dh), (batch, kv_heads, total, value_width)
    return [out, *present, (batch, heads, length, total)]


def _packed_attention(shapes: Shapes, attributes: Attributes) -> Sequence[Shape | None]:
    """com.microsoft Attention: one input, one packed matrix; keys and values of a past in one tensor."""
    x, weight, past = _first(shapes), _at(shapes, 1), _at(shapes, 4)
    sizes = attributes.get("qkv_hidden_sizes")
    width = int(sizes[2]) if sizes else (weight[1] // 3 if weight and len(weight) == 2 else x[2])
    if past is None:
        return [(x[0], x[1], width), None]
    return [(x[0], x[1], width), (*past[:3], past[3] + x[1], past[4])]


def _multi_head(shapes: Shapes, attributes: Attributes) -> Sequence[Shape | None]:
    q = _first(shapes)
    k, v = _at(shapes, 1), _at(shapes, 2)
    heads = int(attributes["num_heads"])
    if len(q) == 5:  # [batch, position, head, 3, width]
        return [(q[0], q[1], q[2] * q[4]), None, None]
    width = (
        v[-1] if v is not None and len(v) == 3 else v[1] * v[3] if v is not None and len(v) == 4 else q[-1]
    )
    past_key, past_value = _at(shapes, 6), _at(shapes, 7)
    present: list[Shape | None] = [None, None]
    if k is not None and v is not None and len(k) == 3 and past_key is not None and past_value is not None:
        total = k[1] + past_key[2]
        present = [(q[0], heads, total, past_key[3]), (q[0], heads, total, past_value[3])]
    elif k is not None and v is not None and len(k) == 3:
        present = [(q[0], heads, s[1], s[2] // heads) for s in (k, v)]
    return [(q[0], q[1], width), *present]


def _grouped(shapes: Shapes, attributes: Attributes) -> Sequence[Shape | None]:
    q = _first(shapes)
    past_key, past_value = _at(shapes, 3), _at(shapes, 4)
    present: list[Shape | None] = [None, None]
    if past_key is not None and past_value is not None:
        present = [
            (*past_key[:2], past_key[2] + q[1], past_key[3]),
            (*past_value[:2], past_value[2] + q[1], past_value[3]),
        ]
    if _at(shapes, 1) is not None:
        return [q, *present]
    heads, kv_heads = int(attributes["num_heads"]), int(attributes["kv_num_heads"])
    return [(*q[:2], q[2] // (heads + 2 * kv_heads) * heads), *present]


def _embedded(shapes: Shapes, _: Attributes) -> Sequence[Shape | None]:
    """com.microsoft EmbedLayerNormalization of tokens [batch, position]; also the lengths, and the sum."""
    tokens, table = _first(shapes), _at(shapes, 2)
    out = None if table is None else (*tokens, table[1])
    return [out, tokens[:1], out]


def _scaled(shapes: Shapes, _: Attributes) -> Sequence[Shape | None]:
    """DynamicQuantizeLinear: numbers, their scale, their zero."""
    return [_first(shapes), (), ()]


def _by_blocks(shapes: Shapes, attributes: Attributes) -> Sequence[Shape | None]:
    """MatMulNBits: the weight is packed, its sizes are attributes. Raises `ValueError` where x does not fit."""
    x = _first(shapes)
    if x[-1] != int(attributes["K"]):
        raise ValueError(f"{list(x)} does not fit a weight of {attributes['K']} rows")
    return [(*x[:-1], int(attributes["N"]))]


QUANTISED = frozenset({
    "QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "MatMulInteger", "MatMulIntegerToFloat",
    "DynamicQuantizeMatMul", "MatMulNBits", "QLinearMatMul", "QGemm", "GatherBlockQuantized",
})  # fmt: skip
"""Operators of numbers of eight bits and less."""

SHAPES: Mapping[tuple[str, str], ShapeOf] = {
    ("", "MatMul"): lambda shapes, attributes: [product_shape(shapes, attributes)],
    ("", "Gemm"): _gemm,
    ("com.microsoft", "FusedMatMul"): _fused_product,
    ("", "Einsum"): _einsum,
    **{(domain, name): _same for name in NORMS for domain in ("", "com.microsoft")},
    **{("com.microsoft", name): _skip for name in SKIP_NORMS},
    ("", "Attention"): _attention,
    ("com.microsoft", "Attention"): _packed_attention,
    ("com.microsoft", "MultiHeadAttention"): _multi_head,
    ("com.microsoft", "GroupQueryAttention"): _grouped,
    ("com.microsoft", "EmbedLayerNormalization"): _embedded,
    **{
        (domain, f"{name}Linear"): _same
        for name in ("Quantize", "Dequantize")
        for domain in ("", "com.microsoft")
    },
    ("", "DynamicQuantizeLinear"): _scaled,
    ("", "MatMulInteger"): lambda shapes, attributes: [product_shape(shapes, attributes)],
    ("com.microsoft", "MatMulNBits"): _by_blocks,
    ("", "RotaryEmbedding"): _same,
    ("com.microsoft", "RotaryEmbedding"): _same,
}
"""By domain and operator."""


def _rotary(shapes: Shapes, _: Attributes) -> str:
    """RotaryEmbedding of ai.onnx without positions: one table for each sequence and position."""
    x, cos = _first(shapes), _at(shapes, 1)
    if _at(shapes, 3) is not None or cos is None or len(cos) != 3 or len(x) not in (3, 4):
        return ""
    batch, length = x[0], x[-2]
    for have, need, what in ((cos[0], batch, "sequences"), (cos[1], length, "positions")):
        if have != need:
            return (
                f"its tables are of {have} {what} and x is of {need}: RotaryEmbedding repeats none "
                "(torch's exporter does this at opset 23 with models of transformers; opset 24 works)"
            )
    return ""


COMPLAINTS: Mapping[tuple[str, str], Callable[[Shapes, Attributes], str]] = {("", "RotaryEmbedding"): _rotary}
"""What runtimes refuse about the shapes of operators that have the shape of their result all the same."""
