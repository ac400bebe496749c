"""Decoders written node by node, every detail of which can be chosen, and got wrong.

The weights are drawn by canonical name, so that what is read off a file can be compared with them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from graphs import operators

FLOATS = {"float32": (TensorProto.FLOAT, np.float32), "float16": (TensorProto.FLOAT16, np.float16)}
MICROSOFT = operators.MICROSOFT


EVERYWHERE = -1
"""A `where` that is every layer."""


@dataclass(frozen=True)
class Plan:
    """What is built. `mistake` names the one thing that is wrong, in layer `where`."""

    norm: str = "rms_norm"  # layer_norm
    norm_as: str = "spelled"  # operator, simplified (com.microsoft), skip (com.microsoft)
    placement: str = "pre"  # post
    position: str = "rope"  # learned, none, sinusoidal (computed in the graph)
    rope_layout: str = "half"  # interleaved
    rope_as: str = "spelled"  # operator, microsoft, inside (the attention does it)
    theta: float = 10000.0
    slowed: float = 1.0  # what the last pair's frequency is divided by, as Llama 3.1 does for long texts
    ffn: str = "swiglu"  # relu, gelu, gelu_tanh
    bias: bool = False
    fused_qkv: bool = False
    attention: str = "spelled"  # einsum; or one operator: operator, multi_head, grouped_query, packed
    inside: bool = False  # the operator joins the past itself
    triangle: bool = False  # the operator is told to be causal, instead of given a mask
    flat: bool = False  # the operator of ai.onnx gets the heads side by side
    packed_qkv: bool = False  # the operator gets q, k and v as one tensor
    nonpad: bool = False  # the operator of ai.onnx is told how many keys are none of padding
    grouping: str = "expand"  # broadcast, tile (with the right order), none
    scale: str = "after"  # query, root, divide, runtime, key
    mask: str = "where"  # trilu, additive, constant
    fill: float = -np.inf
    cached: bool = False
    padded: bool = True
    positions_given: bool = False
    gemm: bool = False
    tied: bool = False
    opset: int = 20
    dtype: str = "float32"
    mistake: str = ""
    where: int = 1
    layers: int = 2
    heads: int = 4
    kv_heads: int = 2
    width: int = 6
    ff: int = 20
    vocab: int = 23
    rows: int = 64
    rows_before: int = 0  # of the position table, before that of position 0
    rotary: int = 0  # how many features of a head turn, the first; 0: all
    packed_gate: str = (
        ""  # gate and up in one matrix, cut apart by split, slice, or the up columns first: turned
    )
    embed_factor: float = 1.0
    window: int = 0  # how many tokens a query sees at most; 0: all
    distance_bias: bool = False  # scores get less the further a key is, each head in its own measure
    eps: float = 1e-5
    residual_weights: bool = False  # the stream is multiplied by weights where attention is added
    position_factor: float = 1.0  # of learned positions
    bare_norms: bool = False  # the operator has a gain of ones, the real one is multiplied behind it
    mean_twice: bool = False  # a norm that is spelled out works its mean out for the variance, and again
    last: str = (
        ""  # only the last position goes out: cut off before the vocabulary (hidden), or after (logits)
    )
    qk_norm: str = ""  # before, after: RMSNorm of each head's queries and keys, before or after they turn


@dataclass
class Graph:
    """Nodes and weights on the way to a model."""

    plan: Plan
    nodes: list[Any] = field(default_factory=list)
    weights: list[Any] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    counter: int = 0

    def op(
        self, kind: str, *inputs: str, outputs: int = 1, name: str = "", domain: str = "", **attributes: Any
    ) -> Any:
        """A node; the name of its output, or a tuple of them."""
        self.counter += 1
        label = f"{name or kind}_{self.counter}"
        out = [f"{label}_out{i or ''}" for i in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), out, name=label, domain=domain, **attributes))
        return out[0] if outputs == 1 else tuple(out)

    def const(self, value: Any, dtype: Any = np.int64) -> str:
        """A constant."""
        self.counter += 1
        name = f"const_{self.counter}"
        self.weights.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def number(self, value: float) -> str:
        """A constant in the model's dtype."""
        return self.const(value, FLOATS[self.plan.dtype][1])

    def weight(self, name: str, array: np.ndarray) -> str:
        """A weight under its own name, once."""
        if name not in self.names:
            self.names.add(name)
            self.weights.append(numpy_helper.from_array(array.astype(FLOATS[self.plan.dtype][1]), name))
        return name


def draw(plan: Plan, seed: int = 0) -> dict[str, np.ndarray]:
    """Weights by canonical name, in float64 with few bits."""
    rng = np.random.default_rng(seed)
    D, H, K, W = plan.heads * plan.width, plan.heads, plan.kv_heads, plan.width
    params: dict[str, np.ndarray] = {"embed": (plan.vocab, D)}
    if plan.position == "learned":
        params["position_embed"] = (plan.rows, D)
    for i in range(plan.layers):
        p = f"layers.{i}."
        for n in ("norm1", "norm2"):
            params[f"{p}{n}.weight"] = (D,)
            if plan.norm == "layer_norm":
                params[f"{p}{n}.bias"] = (D,)
        a = p + "attention."
        params |= {a + "w_q": (D, H * W), a + "w_k": (D, K * W), a + "w_v": (D, K * W), a + "w_o": (H * W, D)}
        if plan.bias:
            params |= {a + "b_q": (H * W,), a + "b_k": (K * W,), a + "b_v": (K * W,), a + "b_o": (D,)}
        if plan.qk_norm:
            params |= {a + "q_norm.weight": (W,), a + "k_norm.weight": (W,)}
        f = p + "ffn."
        if plan.ffn == "swiglu":
            params |= {f + "w_gate": (D, plan.ff), f + "w_up": (D, plan.ff), f + "w_down": (plan.ff, D)}
        else:
            params |= {f + "w_1": (D, plan.ff), f + "w_2": (plan.ff, D)}
            if plan.bias:
                params |= {f + "b_1": (plan.ff,), f + "b_2": (D,)}
    if plan.placement == "pre":
        params["final_norm.weight"] = (D,)
        if plan.norm == "layer_norm":
            params["final_norm.bias"] = (D,)
    if not plan.tied:
        params["lm_head"] = (D, plan.vocab)
    made = {}
    for name, shape in params.items():
        x = rng.standard_normal(shape)
        if name.endswith("weight"):
            x = 1 + x / 4
        elif len(shape) == 1:
            x = x / 4
        elif name not in ("embed", "position_embed"):
            x = x / np.sqrt(shape[0])
        made[name] = np.round(x * 64) / 64
    return made


def build(plan: Plan, params: dict[str, np.ndarray] | None = None) -> onnx.ModelProto:
    """The model of a plan."""
    params = params or draw(plan)
    g = Graph(plan)
    elem = FLOATS[plan.dtype][0]
    inputs = [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", "seq"])]
    outputs = []
    shape = g.op("Shape", "input_ids")
    batch, length = (g.op("Gather", shape, g.const([i])) for i in (0, 1))
    past = g.const([0])
    total = length
    if plan.cached:
        for i in range(plan.layers):
            inputs += [
                helper.make_tensor_value_info(
                    f"past_key_values.{i}.{kind}", elem, ["batch", plan.kv_heads, "past", plan.width]
                )
                for kind in ("key", "value")
            ]
        past = g.op("Gather", g.op("Shape", "past_key_values.0.key"), g.const([2]))
        total = g.op("Add", past, length)
    if plan.padded:
        inputs.append(helper.make_tensor_value_info("attention_mask", TensorProto.INT64, ["batch", "total"]))
    begin = g.op("Squeeze", past)
    if plan.mistake == "positions-reset":
        begin = g.const(0)
    positions = g.op("Range", begin, g.op("Add", begin, g.op("Squeeze", length)), g.const(1))
    positions = g.op("Unsqueeze", positions, g.const([0]))
    if plan.positions_given:
        inputs.append(helper.make_tensor_value_info("position_ids", TensorProto.INT64, ["batch", "seq"]))
        positions = "position_ids"
    elif plan.padded and plan.mistake != "positions-reset":
        # As the document has it: padding does not count.
        counted = g.op("Sub", g.op("CumSum", "attention_mask", g.const(1)), g.const(1))
        counted = g.op("Max", counted, g.const(0))
        positions = g.op("Slice", counted, past, total, g.const([1]))
    if plan.mistake == "positions-late":
        positions = g.op("Add", positions, g.const(1))
    x = g.op("Gather", g.weight("embed", params["embed"]), "input_ids", name="embed")
    if plan.embed_factor != 1:
        x = g.op("Mul", x, g.number(plan.embed_factor))
    if plan.position == "learned":
        table = params["position_embed"]
        if plan.rows_before:
            table = np.concatenate([np.full((plan.rows_before, table.shape[1]), 5.0), table])
            positions = g.op("Add", positions, g.const(plan.rows_before))
        rows = g.op("Gather", g.weight("position_embed", table), positions)
        if plan.position_factor != 1:
            rows = g.op("Mul", rows, g.number(plan.position_factor))
        x = g.op("Add", x, rows)
    if plan.position == "sinusoidal":
        x = g.op("Add", x, _sinusoids(g, plan, positions))
    mask = _mask(g, plan, past, length, total)
    tables = _tables(g, plan, positions) if plan.position == "rope" else None
    pending = None  # of a skip norm: the branch that is still to be added
    for i in range(plan.layers):
        wrong = plan.mistake if plan.where in (i, EVERYWHERE) else ""
        p = f"layers.{i}."
        normed, x = _norm(g, plan, params, p + "norm1", x, pending, wrong)
        pending = None
        entry = x if plan.placement == "post" else normed
        attended, present = _attention(g, plan, params, i, entry, mask, tables, batch, length, total, wrong)
        if plan.cached:
            outputs += [f"present.{i}.key", f"present.{i}.value"]
            for value, name in zip(present, outputs[-2:], strict=True):
                g.nodes.append(helper.make_node("Identity", [value], [name], name="present_" + name))
        source = normed if wrong == "residual-from-normed" else x
        if plan.residual_weights:
            gains = np.linspace(0.5, 1.5, plan.heads * plan.width)
            source = g.op("Mul", g.weight(f"{p}residual", gains), source)
        if wrong == "attention-dropped":
            u = x
        elif wrong == "residual-missing":
            u = attended
        elif plan.norm_as == "skip":
            pending, u = attended, source
        else:
            u = g.op("Add", source, attended, name="residual")
        if plan.placement == "post":
            u, _ = _norm(g, plan, params, p + "norm1", u, None, "")
        normed, u = _norm(g, plan, params, p + "norm2", u, pending, wrong)
        pending = None
        fed = _ffn(g, plan, params, p + "ffn.", u if plan.placement == "post" else normed, wrong)
        source = x if wrong == "ffn-residual-from-x" else u
        if wrong == "ffn-dropped":
            x = u
        elif plan.norm_as == "skip":
            pending, x = fed, source
        else:
            x = g.op("Add", source, fed, name="residual")
        if plan.placement == "post":
            x, _ = _norm(g, plan, params, p + "norm2", x, None, "")
    if plan.placement == "pre" and plan.mistake != "final-norm-dropped":
        x, _ = _norm(g, plan, params, "final_norm", x, pending, "")
    if plan.last == "hidden":
        x = g.op("Gather", x, g.const([-1]), axis=1, name="last")
    if plan.tied:
        logits = g.op(
            "MatMul", x, g.op("Transpose", g.weight("embed", params["embed"]), perm=[1, 0]), name="vocabulary"
        )
    else:
        logits = g.op("MatMul", x, g.weight("lm_head", params["lm_head"]), name="vocabulary")
    if plan.last == "logits":
        logits = g.op("Slice", logits, g.const([-1]), g.const([2**31]), g.const([1]), name="last")
    g.nodes.append(helper.make_node("Identity", [logits], ["logits"], name="logits"))
    seq = 1 if plan.last else "seq"
    typed = [helper.make_tensor_value_info("logits", elem, ["batch", seq, plan.vocab])]
    cache = ["batch", plan.kv_heads, "total", plan.width]
    typed += [helper.make_tensor_value_info(name, elem, cache) for name in outputs]
    opsets = [helper.make_opsetid("", plan.opset), helper.make_opsetid(MICROSOFT, 1)]
    return helper.make_model(
        helper.make_graph(g.nodes, "decoder", inputs, typed, g.weights), opset_imports=opsets, ir_version=10
    )


def save(model: onnx.ModelProto, path: Path) -> Path:
    """Write a model."""
    onnx.save(model, path)
    return path


# -- parts ----------------------------------------------------------------------------------------------


def _mask(g: Graph, plan: Plan, past: str, length: str, total: str) -> str | None:
    """Boolean [batch or 1, 1, seq, total], True where a key may be read."""
    if plan.mistake == "mask-dropped" and not plan.padded:
        return None
    offset = {"mask-late": 1, "mask-early": -1}.get(plan.mistake, 0)
    one = g.const(1)
    start = g.op("Squeeze", g.const([0]) if plan.mistake == "mask-top-left" else past)
    rows = g.op("Range", start, g.op("Add", start, g.op("Squeeze", length)), one)
    columns = g.op("Range", g.const(0), g.op("Squeeze", total), one)
    if offset:
        rows = g.op("Add", rows, g.const(offset))
    rows = g.op("Unsqueeze", rows, g.const([1]))
    columns = g.op("Unsqueeze", columns, g.const([0]))
    if plan.mistake == "mask-inverted":
        visible = g.op("Greater", columns, rows, name="mask")
    else:
        visible = g.op("LessOrEqual", columns, rows, name="mask")
    if plan.window:
        visible = g.op("And", visible, g.op("Greater", columns, g.op("Sub", rows, g.const(plan.window))))
    visible = g.op("Unsqueeze", visible, g.const([0, 1]))
    if plan.padded:
        real = g.op("Unsqueeze", g.op("Cast", "attention_mask", to=TensorProto.BOOL), g.const([1, 2]))
        if plan.mistake == "padding-ignored":
            return visible
        visible = real if plan.mistake == "mask-dropped" else g.op("And", visible, real)
    return visible


def _tables(g: Graph, plan: Plan, positions: str) -> tuple[str, str]:
    """Cosines and sines [batch, seq, width / 2]."""
    elem = FLOATS[plan.dtype][0]
    pairs = (plan.rotary or plan.width) // 2
    exponent = np.arange(pairs) / pairs
    if plan.mistake == "rope-exponent":
        exponent = exponent / 2
    theta = 1000.0 if plan.mistake == "rope-theta" else plan.theta
    slowed = np.where(np.arange(pairs) < pairs - 1, 1, plan.slowed)
    frequency = g.const(theta**-exponent / slowed, np.float32)
    place = g.op("Unsqueeze", g.op("Cast", positions, to=TensorProto.FLOAT), g.const([2]))
    angles = g.op("Mul", place, frequency)
    cos, sin = g.op("Cos", angles), g.op("Sin", angles)
    if elem != TensorProto.FLOAT:
        cos, sin = (g.op("Cast", t, to=elem) for t in (cos, sin))
    return cos, sin


def _sinusoids(g: Graph, plan: Plan, positions: str) -> str:
    """Sines at even features, cosines at odd ones: [batch, seq, model]."""
    width = plan.heads * plan.width
    frequency = g.const(10000.0 ** -(np.arange(0, width, 2) / width), np.float32)
    place = g.op("Unsqueeze", g.op("Cast", positions, to=TensorProto.FLOAT), g.const([2]))
    angles = g.op("Mul", place, frequency)
    pairs = [g.op("Unsqueeze", g.op(kind, angles), g.const([3])) for kind in ("Sin", "Cos")]
    return str(g.op("Reshape", g.op("Concat", *pairs, axis=-1), g.const([0, 0, width]), name="sinusoids"))


def _rope(g: Graph, plan: Plan, x: str, tables: tuple[str, str], wrong: str) -> str:
    """[batch, head, seq, width], turned."""
    cos, sin = tables
    if plan.rotary:
        whole = replace(plan, width=plan.rotary, rotary=0)
        a, b = g.op("Split", x, g.const([plan.rotary, plan.width - plan.rotary]), outputs=2, axis=-1)
        return str(g.op("Concat", _rope(g, whole, a, tables, wrong), b, axis=-1, name="rope"))
    half = plan.width // 2
    if plan.rope_as == "operator":
        return str(
            g.op(
                "RotaryEmbedding",
                x,
                cos,
                sin,
                interleaved=int(plan.rope_layout == "interleaved"),
                name="rope",
            )
        )
    c, s = (g.op("Unsqueeze", t, g.const([1])) for t in (cos, sin))
    if plan.rope_layout == "half":
        a = g.op("Slice", x, g.const([0]), g.const([half]), g.const([3]))
        b = g.op("Slice", x, g.const([half]), g.const([plan.width]), g.const([3]))
    else:
        a = g.op("Slice", x, g.const([0]), g.const([plan.width]), g.const([3]), g.const([2]))
        b = g.op("Slice", x, g.const([1]), g.const([plan.width]), g.const([3]), g.const([2]))
    first = "Add" if wrong == "rope-sign" else "Sub"
    turned = (
        g.op(first, g.op("Mul", a, c), g.op("Mul", b, s)),
        g.op("Add", g.op("Mul", a, s), g.op("Mul", b, c)),
    )
    if plan.rope_layout == "half":
        return str(g.op("Concat", *turned, axis=-1, name="rope"))
    pairs = [g.op("Unsqueeze", t, g.const([4])) for t in turned]
    return str(g.op("Reshape", g.op("Concat", *pairs, axis=-1), g.const([0, 0, 0, plan.width]), name="rope"))


def _norm(
    g: Graph, plan: Plan, params: dict[str, np.ndarray], name: str, x: str, branch: str | None, wrong: str
) -> tuple[str, str]:
    """(normed, the stream). With `branch`, one operator adds it first."""
    if plan.placement == "post" and branch is None and name.endswith("1") and "unused" in wrong:
        return x, x
    gain = g.weight(name + ".weight", params[name + ".weight"])
    bias = g.weight(name + ".bias", params[name + ".bias"]) if name + ".bias" in params else None
    given = [gain] if bias is None else [gain, bias]
    if plan.norm_as == "skip" and branch is not None:
        kind = "SkipLayerNormalization" if bias else "SkipSimplifiedLayerNormalization"
        out = g.op(kind, x, branch, *given, outputs=4, domain=MICROSOFT, epsilon=plan.eps, name="norm")
        return out[0], out[3]
    if plan.norm_as in ("operator", "skip", "simplified"):
        if plan.bare_norms:
            ones = g.weight("ones", np.ones(plan.heads * plan.width))
            whole = g.op("LayerNormalization", x, ones, axis=-1, epsilon=plan.eps, name="norm")
            return g.op("Add", g.op("Mul", whole, gain), bias), x
        if bias:
            return g.op("LayerNormalization", x, *given, axis=-1, epsilon=plan.eps, name="norm"), x
        if plan.norm_as == "operator" and plan.opset >= 23:
            return g.op("RMSNormalization", x, gain, axis=-1, epsilon=plan.eps, name="norm"), x
        return g.op("SimplifiedLayerNormalization", x, gain, axis=-1, epsilon=plan.eps, name="norm"), x
    eps = g.number(plan.eps)
    centred = x
    if plan.norm == "layer_norm":
        centred = g.op("Sub", x, g.op("ReduceMean", x, g.const([-1])))
    square = g.op("ReduceMean", g.op("Pow", centred, g.number(2)), g.const([-1]), name="mean_square")
    root = g.op("Sqrt", g.op("Add", square, eps), name="norm")
    if plan.mean_twice:
        centred = g.op("Sub", x, g.op("ReduceMean", x, g.const([-1])))
    normed = g.op("Div", centred, root)
    normed = g.op("Mul", normed, gain)
    return (g.op("Add", normed, bias) if bias else normed), x


def _project(
    g: Graph, plan: Plan, x: str, name: str, w: np.ndarray, b_name: str, b: np.ndarray | None, label: str
) -> str:
    """x @ w + b."""
    if plan.gemm:
        flat = g.op("Reshape", x, g.const([-1, w.shape[0]]))
        more = [g.weight(b_name, b)] if b is not None else []
        y = g.op("Gemm", flat, g.weight(name + "^T", w.T.copy()), *more, transB=1, name=label)
        shape = g.op(
            "Concat", g.op("Slice", g.op("Shape", x), g.const([0]), g.const([2])), g.const([-1]), axis=0
        )
        return str(g.op("Reshape", y, shape))
    y = g.op("MatMul", x, g.weight(name, w), name=label)
    return str(y if b is None else g.op("Add", y, g.weight(b_name, b)))


def _attention(
    g: Graph, plan: Plan, params: dict[str, np.ndarray], layer: int, x: str, mask: str | None,
    tables: tuple[str, str] | None, batch: str, length: str, total: str, wrong: str,
) -> tuple[str, tuple[str, str]]:  # fmt: skip
    a = f"layers.{layer}.attention."
    H, K, W = plan.heads, plan.kv_heads, plan.width
    reads = a if wrong != "keys-of-another-layer" else "layers.0.attention."
    names = {"q": a, "k": reads, "v": a}
    flat = {}
    if plan.attention == "packed":
        z, present = operators.packed(g, plan, params, layer, x, wrong)
        return _project(g, plan, z, a + "w_o", params[a + "w_o"], a + "b_o", params.get(a + "b_o"), "attention_output"), present  # fmt: skip
    if plan.fused_qkv:
        w = np.concatenate([params[a + f"w_{n}"] for n in "qkv"], axis=1)
        b = np.concatenate([params[a + f"b_{n}"] for n in "qkv"]) if plan.bias else None
        whole = _project(g, plan, x, a + "w_qkv", w, a + "b_qkv", b, "qkv")
        parts = g.op("Split", whole, g.const([H * W, K * W, K * W]), outputs=3, axis=-1)
        flat = dict(zip("qkv", parts, strict=True))
    else:
        for n in "qkv":
            p = names[n]
            b = params.get(p + f"b_{n}")
            flat[n] = _project(g, plan, x, p + f"w_{n}", params[p + f"w_{n}"], p + f"b_{n}", b, n)
    if wrong == "value-from-keys":
        flat["v"] = flat["k"]
    split = {}
    for n, heads in (("q", H), ("k", K), ("v", K)):
        if wrong == "split-without-transpose":
            split[n] = g.op(
                "Reshape", flat[n], g.op("Concat", batch, g.const([heads]), length, g.const([W]), axis=0)
            )
        else:
            split[n] = g.op(
                "Transpose", g.op("Reshape", flat[n], g.const([0, 0, heads, W])), perm=[0, 2, 1, 3]
            )
    head_norms = [(n, f"{a}{n}_norm") for n in "qk" if plan.qk_norm]
    if plan.qk_norm == "before":
        split |= {n: _norm(g, plan, params, name, split[n], None, "")[0] for n, name in head_norms}
    if tables is not None and plan.rope_as != "inside":
        if wrong != "rope-on-keys-only":
            split["q"] = _rope(g, plan, split["q"], tables, wrong)
        split["k"] = _rope(g, plan, split["k"], tables, wrong)
    if plan.qk_norm == "after":
        split |= {n: _norm(g, plan, params, name, split[n], None, "")[0] for n, name in head_norms}
    present = (split["k"], split["v"])
    if plan.attention == "grouped_query":
        z, present = operators.grouped_query(g, plan, layer, flat, split, tables, total, wrong)
    elif plan.cached and not plan.inside:
        made = []
        for n, kind in (("k", "key"), ("v", "value")):
            before = f"past_key_values.{layer}.{kind}"
            if wrong == "past-ignored":
                # As long as it should be, of this call's numbers: the first again and again.
                shape = g.op("Shape", before)
                first = g.op("Slice", split[n], g.const([0]), g.const([1]), g.const([2]))
                before = g.op("Expand", first, shape)
            order = (split[n], before) if wrong == "past-behind" else (before, split[n])
            made.append(g.op("Concat", *order, axis=2, name=f"join_{n}"))
        present = (made[0], made[1])
    if plan.attention in ("operator", "multi_head"):
        form = operators.standard if plan.attention == "operator" else operators.multi_head
        z, present = form(g, plan, layer, split, present, mask, wrong)
    elif plan.attention not in operators.FUSED:
        z = _spelled(g, plan, split["q"], present, mask, batch, total, wrong)
    if wrong == "merge-without-transpose":
        merged = g.op("Reshape", z, g.op("Concat", batch, length, g.const([H * W]), axis=0))
    else:
        merged = (
            z
            if plan.attention in operators.FUSED
            else g.op("Reshape", g.op("Transpose", z, perm=[0, 2, 1, 3]), g.const([0, 0, H * W]))
        )
    out = _project(
        g, plan, merged, a + "w_o", params[a + "w_o"], a + "b_o", params.get(a + "b_o"), "attention_output"
    )
    return out, present


def _spelled(
    g: Graph,
    plan: Plan,
    q: str,
    keys_values: tuple[str, str],
    mask: str | None,
    batch: str,
    total: str,
    wrong: str,
) -> str:
    H, K, W = plan.heads, plan.kv_heads, plan.width
    factor = {"scale-by-model-width": (H * W) ** -0.5, "scale-by-width": 1 / W, "scale-dropped": 1.0}.get(
        wrong, W**-0.5
    )
    keys, values = keys_values
    if K != H:
        keys, values = (_shared(g, plan, t, batch, total, wrong) for t in (keys, values))
    if wrong == "keys-are-values":
        values = keys
    if plan.scale in ("query", "root"):
        q = g.op("Mul", q, g.number(factor if plan.scale == "query" else factor**0.5), name="scale")
    if plan.attention == "einsum":
        scores = g.op("Einsum", q, keys, equation="bhid,bhjd->bhij", name="scores")
    else:
        turned = g.op("Transpose", keys, perm=[0, 1, 3, 2])
        if plan.scale in ("key", "root"):
            turned = g.op(
                "Mul", turned, g.number(factor if plan.scale == "key" else factor**0.5), name="scale"
            )
        scores = g.op("MatMul", q, turned, name="scores")
    if plan.scale == "after":
        scores = g.op("Mul", scores, g.number(factor), name="scale")
    elif plan.scale == "divide":
        scores = g.op("Div", scores, g.number(1 / factor), name="scale")
    elif plan.scale == "runtime":
        width = g.op("Cast", g.op("Gather", g.op("Shape", q), g.const(3)), to=FLOATS[plan.dtype][0])
        scores = g.op("Div", scores, g.op("Sqrt", width), name="scale")
    if plan.distance_bias:
        keys_at = g.op("Range", g.const(0), g.op("Squeeze", total), g.const(1))
        slope = g.const(2.0 ** -np.arange(1, H + 1).reshape(1, H, 1, 1), FLOATS[plan.dtype][1])
        distance = g.op("Cast", g.op("Sub", keys_at, g.op("Squeeze", total)), to=FLOATS[plan.dtype][0])
        scores = g.op("Add", scores, g.op("Mul", distance, slope), name="bias")
    fill = -10.0 if wrong == "fill-small" else plan.fill
    if plan.dtype == "float16" and not np.isinf(fill):
        fill = max(fill, -65504.0)
    axis = {"softmax-over-query": 2, "softmax-over-head": 1}.get(wrong, -1)
    if mask is not None and wrong not in ("mask-dropped-here", "mask-after-softmax"):
        if plan.mask == "where":
            scores = g.op("Where", mask, scores, g.number(fill), name="masked")
        else:
            scores = g.op("Add", scores, g.op("Where", mask, g.number(0), g.number(fill)), name="masked")
    weights = g.op("Softmax", scores, axis=axis, name="softmax")
    if plan.fill == -np.inf and plan.mask == "where":
        weights = g.op("Where", g.op("IsNaN", weights), g.number(0), weights)
    if wrong == "mask-after-softmax":
        weights = g.op("Mul", weights, g.op("Cast", mask, to=FLOATS[plan.dtype][0]))
    if plan.attention == "einsum":
        return str(g.op("Einsum", weights, values, equation="bhij,bhjd->bhid", name="z"))
    return str(g.op("MatMul", weights, values, name="z"))


def _shared(g: Graph, plan: Plan, x: str, batch: str, total: str, wrong: str) -> str:
    """Key or value heads for query heads: [batch, heads, total, width]."""
    H, K, W = plan.heads, plan.kv_heads, plan.width
    group = H // K
    shape = g.op("Concat", batch, g.const([H]), total, g.const([W]), axis=0)
    if wrong == "heads-tiled":
        return str(g.op("Tile", x, g.const([1, group, 1, 1]), name="heads"))
    wide = g.op("Concat", batch, g.const([K, group]), total, g.const([W]), axis=0)
    return str(g.op("Reshape", g.op("Expand", g.op("Unsqueeze", x, g.const([2])), wide), shape, name="heads"))


def _gate_and_up(g: Graph, plan: Plan, params: dict[str, np.ndarray], f: str, x: str) -> tuple[str, str]:
    gate, up = params[f + "w_gate"], params[f + "w_up"]
    if not plan.packed_gate:
        return (
            g.op("MatMul", x, g.weight(f + "w_gate", gate), name="gate"),
            g.op("MatMul", x, g.weight(f + "w_up", up), name="up"),
        )
    turned = plan.packed_gate == "turned"
    whole = np.concatenate([up, gate] if turned else [gate, up], axis=1)
    both = g.op("MatMul", x, g.weight(f + "w_gate_up", whole), name="gate_up")
    if plan.packed_gate == "slice":
        ends = (0, plan.ff), (plan.ff, 2 * plan.ff)
        a, b = (g.op("Slice", both, g.const([i]), g.const([j]), g.const([2])) for i, j in ends)
    else:
        a, b = g.op("Split", both, g.const([plan.ff, plan.ff]), outputs=2, axis=-1)
    return (b, a) if turned else (a, b)


def _ffn(g: Graph, plan: Plan, params: dict[str, np.ndarray], f: str, x: str, wrong: str) -> str:
    if plan.ffn == "swiglu":
        gate, up = _gate_and_up(g, plan, params, f, x)
        if wrong == "gate-and-up-swapped":
            gate, up = up, gate
        if wrong == "gate-unused":
            hidden = g.op("Mul", gate, g.op("Sigmoid", gate))
        elif wrong == "sigmoid-gate":
            hidden = g.op("Mul", g.op("Sigmoid", gate), up)
        else:
            hidden = g.op("Mul", g.op("Mul", gate, g.op("Sigmoid", gate)), up)
        return str(g.op("MatMul", hidden, g.weight(f + "w_down", params[f + "w_down"]), name="down"))
    pre = _project(g, plan, x, f + "w_1", params[f + "w_1"], f + "b_1", params.get(f + "b_1"), "ffn_in")
    if wrong == "activation-dropped":
        hidden = pre
    elif plan.ffn == "relu":
        hidden = g.op("Relu", pre)
    elif plan.ffn == "gelu":
        erf = g.op("Erf", g.op("Div", pre, g.number(2**0.5)))
        hidden = g.op("Mul", g.op("Mul", pre, g.op("Add", erf, g.number(1))), g.number(0.5))
    else:
        cube = g.op("Mul", g.op("Pow", pre, g.number(3)), g.number(0.044715))
        inner = g.op("Mul", g.op("Add", pre, cube), g.number((2 / np.pi) ** 0.5))
        hidden = g.op("Mul", g.op("Mul", pre, g.op("Add", g.op("Tanh", inner), g.number(1))), g.number(0.5))
    return str(
        _project(g, plan, hidden, f + "w_2", params[f + "w_2"], f + "b_2", params.get(f + "b_2"), "ffn_out")
    )
