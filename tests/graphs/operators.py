"""Attentions that are one operator, as handmade decoders have them: of ai.onnx and of com.microsoft.

Each gets what is already projected, and gives the heads side by side: [batch, seq, heads x width].
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import TensorProto

if TYPE_CHECKING:
    from graphs.handmade import Graph, Plan

MICROSOFT = "com.microsoft"
FUSED = ("operator", "multi_head", "grouped_query", "packed")


def scale_of(plan: Plan, wrong: str) -> dict[str, Any]:
    """The attribute that says another scale than the operator's own."""
    width = plan.width
    known = {
        "scale-by-model-width": float((plan.heads * width) ** -0.5),
        "scale-by-width": 1 / width,
        "scale-dropped": 1.0,
    }
    return {"scale": known[wrong]} if wrong in known else {}


def merged(g: Graph, x: str, heads: int, width: int) -> str:
    """[batch, head, seq, width] with the heads side by side."""
    return str(g.op("Reshape", g.op("Transpose", x, perm=[0, 2, 1, 3]), g.const([0, 0, heads * width])))


def past_of(g: Graph, plan: Plan, layer: int, new: dict[str, str], wrong: str) -> list[str]:
    """Past keys and values as an operator gets them."""
    given = []
    for n, kind in (("k", "key"), ("v", "value")):
        before = f"past_key_values.{layer}.{kind}"
        if wrong == "past-ignored":  # as long as it should be, of this call's numbers
            first = g.op("Slice", new[n], g.const([0]), g.const([1]), g.const([2]))
            before = g.op("Expand", first, g.op("Shape", before))
        given.append(before)
    return given


def standard(
    g: Graph, plan: Plan, layer: int, split: dict[str, str], joined: tuple[str, str], mask: str | None, wrong: str
) -> tuple[str, tuple[str, str]]:  # fmt: skip
    """Attention of ai.onnx. `joined` are keys and values with their past, where that stands outside."""
    H, K, W = plan.heads, plan.kv_heads, plan.width
    attributes = scale_of(plan, wrong)
    if plan.triangle and wrong != "mask-dropped-here":
        attributes["is_causal"] = 1
    keys = [split["k"], split["v"]] if plan.inside else list(joined)
    if wrong == "heads-tiled":
        keys = [g.op("Tile", t, g.const([1, H // K, 1, 1]), name="heads") for t in keys]
        K = H
    given = [split["q"], *keys]
    if plan.flat:
        given = [merged(g, t, heads, W) for t, heads in zip(given, (H, K, K), strict=True)]
        attributes |= {"q_num_heads": H, "kv_num_heads": K}
    given.append("" if mask is None or plan.nonpad or wrong == "mask-dropped-here" else mask)
    if plan.inside:
        given += past_of(g, plan, layer, split, wrong)
    if plan.nonpad:
        counted = g.op("ReduceSum", "attention_mask", g.const([1]), keepdims=0)
        given += [""] * (6 - len(given)) + [counted]
    while not given[-1]:
        given.pop()
    out = g.op("Attention", *given, outputs=3 if plan.inside else 1, name="attention", **attributes)
    z, present = (out[0], (out[1], out[2])) if plan.inside else (out, joined)
    return (z if plan.flat else merged(g, z, H, W)), present


def multi_head(
    g: Graph, plan: Plan, layer: int, split: dict[str, str], joined: tuple[str, str], mask: str | None, wrong: str
) -> tuple[str, tuple[str, str]]:  # fmt: skip
    """MultiHeadAttention: as many key heads as query heads, so those that are shared are repeated before."""
    H, K, W = plan.heads, plan.kv_heads, plan.width
    attributes: dict[str, Any] = {"num_heads": H, **scale_of(plan, wrong)}
    keys = [split["k"], split["v"]] if plan.inside else list(joined)
    if K != H:
        keys = [repeated(g, t, H, K, wrong) for t in keys]
    bias = ""
    padding = ""
    if plan.triangle:
        if wrong != "mask-dropped-here":
            attributes["unidirectional"] = 1
        if plan.padded and wrong != "padding-ignored-here":
            padding = g.op("Cast", "attention_mask", to=TensorProto.INT32)
    elif mask is not None and wrong != "mask-dropped-here":
        low = -1e9 if plan.dtype == "float32" else -6e4
        bias = g.op("Where", mask, g.number(0), g.number(low))
    past = past_of(g, plan, layer, split, wrong) if plan.inside else []
    flat = [merged(g, t, H, W) for t in (split["q"], *keys)]
    if plan.packed_qkv:  # [batch, seq, head, 3, width]
        each = [g.op("Reshape", t, g.const([0, 0, H, 1, W])) for t in flat]
        flat = [g.op("Concat", *each, axis=3), "", ""]
    given = [*flat, "", padding, bias, *past]
    while not given[-1]:
        given.pop()
    out = g.op(
        "MultiHeadAttention", *given, outputs=3 if plan.inside else 1, domain=MICROSOFT, name="attention",
        **attributes,
    )  # fmt: skip
    return (out[0], (out[1], out[2])) if plan.inside else (out, joined)


def repeated(g: Graph, x: str, heads: int, kv_heads: int, wrong: str) -> str:
    """Key or value heads [batch, kv_head, key, width], one for each query head."""
    group = heads // kv_heads
    if wrong == "heads-tiled":
        return str(g.op("Tile", x, g.const([1, group, 1, 1]), name="heads"))
    wide = g.op("Expand", g.op("Unsqueeze", x, g.const([2])), g.const([1, 1, group, 1, 1]))
    shape = g.op("Shape", x)
    size = g.op(
        "Concat", g.op("Gather", shape, g.const([0])), g.const([heads]), g.op("Gather", shape, g.const([2, 3])), axis=0
    )  # fmt: skip
    return str(g.op("Reshape", wide, size, name="heads"))


def grouped_query(
    g: Graph, plan: Plan, layer: int, flat: dict[str, str], split: dict[str, str], tables: tuple[str, str] | None,
    total: str, wrong: str,
) -> tuple[str, tuple[str, str]]:  # fmt: skip
    """GroupQueryAttention: always causal; how long each sequence is, it is told as numbers."""
    H, K, W = plan.heads, plan.kv_heads, plan.width
    attributes: dict[str, Any] = {"num_heads": H, "kv_num_heads": K, **scale_of(plan, wrong)}
    caches: list[str] = []
    if plan.rope_as == "inside":
        half = W // 2
        angles = np.arange(plan.rows)[:, None] * plan.theta ** -(np.arange(half) / half)
        caches = [g.weight(f"{n}_cache", f(angles)) for n, f in (("cos", np.cos), ("sin", np.sin))]
        attributes |= {"do_rotary": 1, "rotary_interleaved": int(plan.rope_layout == "interleaved")}
        flats = dict(flat)
    else:
        flats = {n: merged(g, split[n], H if n == "q" else K, W) for n in "qkv"}
    if wrong == "window":
        attributes["local_window_size"] = 2
    if plan.packed_qkv:
        order = ("q", "k", "v") if wrong != "keys-and-values-swapped" else ("q", "v", "k")
        given = [g.op("Concat", *(flats[n] for n in order), axis=-1), "", ""]
    else:
        given = [flats["q"], flats["k"], flats["v"] if wrong != "value-from-keys-here" else flats["k"]]
    if plan.cached:
        given += past_of(g, plan, layer, split, wrong)
    else:
        given += ["", ""]
    whole = g.op("Cast", g.op("Squeeze", total), to=TensorProto.INT32)
    one = g.const(1, np.int32)
    if plan.padded:
        counted = g.op(
            "ReduceSum", g.op("Cast", "attention_mask", to=TensorProto.INT32), g.const([1]), keepdims=0
        )
        last = g.op("Sub", counted, one)
    else:
        batch = g.op("Gather", g.op("Shape", "input_ids"), g.const([0]))
        last = g.op("Expand", g.op("Sub", whole, one), batch)
    given += [last, whole, *caches]
    out = g.op(
        "GroupQueryAttention", *given, outputs=3 if plan.cached else 1, domain=MICROSOFT, name="attention",
        **attributes,
    )  # fmt: skip
    return (out[0], (out[1], out[2])) if plan.cached else (out, (split["k"], split["v"]))


def packed(
    g: Graph, plan: Plan, params: dict[str, np.ndarray], layer: int, x: str, wrong: str
) -> tuple[str, tuple[str, str]]:
    """com.microsoft Attention: the three projections stand inside, as one matrix."""
    a = f"layers.{layer}.attention."
    H, W = plan.heads, plan.width
    attributes: dict[str, Any] = {"num_heads": H, **scale_of(plan, wrong)}
    if wrong != "mask-dropped-here":
        attributes["unidirectional"] = 1
    order = "qkv" if wrong != "value-from-keys-here" else "qkk"
    weight = np.concatenate([params[a + f"w_{n}"] for n in order], axis=1)
    zeros = np.zeros(3 * H * W)
    bias = np.concatenate([params[a + f"b_{n}"] for n in order]) if plan.bias else zeros
    given = [x, g.weight(a + "w_qkv", weight), g.weight(a + "b_qkv", bias)]
    padding = ""
    if plan.padded and wrong != "padding-ignored-here":
        padding = g.op("Cast", "attention_mask", to=TensorProto.INT32)
    given.append(padding)
    if plan.cached:
        pair = [
            g.op("Unsqueeze", f"past_key_values.{layer}.{kind}", g.const([0])) for kind in ("key", "value")
        ]
        given.append(g.op("Concat", *pair, axis=0))
    while not given[-1]:
        given.pop()
    out = g.op(
        "Attention", *given, outputs=2 if plan.cached else 1, domain=MICROSOFT, name="attention", **attributes
    )
    if not plan.cached:
        return out, ("", "")
    return out[0], tuple(g.op("Gather", out[1], g.const(i), axis=0) for i in (0, 1))  # type: ignore[return-value]
