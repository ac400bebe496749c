"""Checks of what attentions compute with: softmax axis, scale, heads, caches, projections, positions."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from conformance.judging.graph_findings import Finding, Result, Unknown, fine, unread
from conformance.language.program import Choices, Text
from conformance.told import told

if TYPE_CHECKING:
    from conformance.onnx.facts import AttentionFacts, GraphFacts


NEAR = 2e-3
"""By how much a scale may be off: float16 keeps three digits."""
NEAR_BFLOAT16 = 1e-2
"""The same where numbers are of bfloat16, which keeps two; a root of the scale on both sides is off twice."""


WRONG_TURNS = {
    "no rotation: a sign is wrong": "rope-sign-lost",
    "turned backwards": "rope-turned-backwards",
    "lengths change": "",
}
"""What no way to lay out features can make right; one that is merely unknown may only order them otherwise."""


def softmax_axis(facts: GraphFacts, choices: Choices) -> Iterator[Result]:
    """The axis that sums to one is the one contracted with V."""
    for attention in facts.attentions:
        axis = attention.softmax_axis
        if axis is None:
            yield unread("the softmax axis", " softmax 轴", attention.at)
        elif axis == "key":
            yield fine(attention.at)
        else:
            mistake = {
                "query": "softmax-over-query",
                "head": "softmax-over-head",
                "batch": "softmax-over-batch",
            }
            yield Finding(
                False,
                attention.at,
                Text(
                    f"softmax runs over the {axis} axis, while the values are summed over keys",
                    f"softmax 沿 {axis} 轴进行，而值是沿键求和的",
                ),
                mistake.get(axis, ""),
            )


FOLDED = Text(
    " (if the weights of the queries hold the factor, say so with --map: `scale: folded`)",
    "（若该系数已并入查询的权重，请在 --map 文件中写明 `scale: folded`）",
)
"""A graph without any factor may hold it in its weights; a lone file does not tell."""

IN_WEIGHTS = Text(
    "no node scales the scores; the weights of the queries are smaller than those of the keys by about 1/√Dh, "
    "so they are taken to hold the factor (if they do, `scale: folded` in the --map file says so)",
    "没有节点缩放分数；查询的权重约为键的权重的 1/√Dh，因此视为已含该系数"
    "（如果确实如此，可在 --map 文件中写明 `scale: folded`）",
)


def scale(facts: GraphFacts, choices: Choices) -> Iterator[Result]:
    """The whole factor on q·k is 1/√Dh."""
    for attention in facts.attentions:
        if attention.scale is None and attention.in_weights:
            yield Unknown(IN_WEIGHTS)
            continue
        if attention.scale is None or attention.d_head is None:
            yield unread("the scale", "缩放", attention.at)
            continue
        want = 1 / math.sqrt(attention.d_head)
        coarse = any(port.role == "logits" and port.dtype == "bfloat16" for port in facts.outputs)
        if abs(attention.scale / want - 1) <= (NEAR_BFLOAT16 if coarse else NEAR):
            yield fine(attention.at)
            continue
        yield Finding(
            False,
            attention.scale_at,
            Text(
                f"scores are multiplied by {attention.scale:g}; with heads of width {attention.d_head} it should be {want:.6g}"
                + (FOLDED.en if abs(attention.scale - 1) <= NEAR else ""),
                f"分数乘以 {attention.scale:g}；头宽为 {attention.d_head} 时应为 {want:.6g}"
                + (FOLDED.zh if abs(attention.scale - 1) <= NEAR else ""),
            ),
            _scale_mistake(facts, attention),
        )


def _scale_mistake(facts: GraphFacts, attention: AttentionFacts) -> str:
    width, model = attention.d_head, facts.sizes.get("d_model")
    if attention.scale is None or width is None:
        return ""
    candidates = {"no-scale": 1.0, "scale-by-head-width": 1 / width, "scale-multiplied": math.sqrt(width)}
    if model:
        candidates["scale-by-model-width"] = 1 / math.sqrt(model)
    return next((n for n, value in candidates.items() if abs(attention.scale / value - 1) <= NEAR), "")


def heads(facts: GraphFacts, choices: Choices) -> Iterator[Result]:
    """Query head h reads key and value head h // group; heads are split and merged as columns."""
    for attention in facts.attentions:
        problems = [p for p in attention.problems if "after the softmax" not in p]
        if problems:
            mistake = (
                "heads-merged-without-transpose"
                if "side by side" in problems[0]
                else "heads-split-without-transpose"
            )
            yield Finding(False, attention.at, Text(problems[0], "各头的拆分或合并不正确"), mistake)
        elif attention.grouping is None:
            yield unread("the heads", "头的划分", attention.at)
        elif attention.grouping in ("none", "repeat"):
            yield fine(attention.at)
        else:
            tiled = attention.grouping == "tile"
            yield Finding(
                False, attention.at,
                Text(
                    f"key and value heads are {'tiled' if tiled else 'shared in another order'}: query head h should read head h // group",
                    "键值头的共享次序不对：查询头 h 应读第 h // 组大小 个头",
                ),
                "gqa-tile" if tiled else "",
            )  # fmt: skip


def cache(facts: GraphFacts, choices: Choices) -> Iterator[Result]:
    """Keys and values of a past come first, along the key axis, in every layer."""
    if not facts.caches:
        yield Unknown(Text("the graph has no caches", "图没有缓存"))
        return
    for attention in facts.attentions:
        for name, operand in (("keys", attention.k), ("values", attention.v)):
            zh = "键" if name == "keys" else "值"
            if operand is None or operand.reads_past is None:
                yield unread(f"the {name}", zh, attention.at)
            elif not operand.reads_past:
                yield Finding(
                    False,
                    attention.at,
                    Text(f"no number of the past reaches the {name}", f"历史的{zh}没有被读到"),
                    "cache-forgotten",
                )
            elif operand.joined_along is None:
                yield unread(f"how the {name} join their past", f"{zh}与历史的拼接", attention.at)
            elif operand.joined_along != "key":
                yield Finding(
                    False, attention.at,
                    Text(f"the {name} are joined to their past along another axis than keys", f"{zh}没有沿键轴与历史拼接"),
                )  # fmt: skip
            elif operand.past_first is False:
                yield Finding(
                    False, attention.at,
                    Text(f"the new {name} stand before their past", f"新的{zh}被放在历史之前"), "cache-scrambled",
                )  # fmt: skip
            else:
                yield fine(attention.at)


def projections(facts: GraphFacts, choices: Choices) -> Iterator[Result]:
    """Queries, keys and values have matrices of their own, in every layer."""
    seen: dict[tuple[str, int | None], tuple[int, str]] = {}
    for i, attention in enumerate(facts.attentions):
        for name, operand in (("q", attention.q), ("k", attention.k), ("v", attention.v)):
            if operand is None or operand.weight is None or operand.first_column is None:
                yield unread(f"the projection of {name}", f" {name} 的投影", attention.at)
                continue
            key = (operand.weight, operand.first_column)
            if key not in seen:
                seen[key] = (i, name)
                yield fine(attention.at)
                continue
            other, what = seen[key]
            same = other == i
            mistake = (
                "value-from-key-projection"
                if same and {what, name} == {"k", "v"}
                else "projections-shared"
                if same
                else ""
            )
            whose = "of the same attention" if same else f"of attention {other}"
            yield Finding(
                False, operand.projection or attention.at,
                Text(f"{name} is projected with the matrix of {what} {whose}", f"{name} 使用了{'同一' if same else f'第 {other} 个'}注意力中 {what} 的矩阵"),
                mistake,
            )  # fmt: skip


def positions(facts: GraphFacts, choices: Choices) -> Iterator[Result]:
    """Queries and keys are both turned, by the position that the token has, also behind a past."""
    past = facts.tried.get("past", 0)
    turned = [a for a in facts.attentions if (a.q and a.q.rope) or (a.k and a.k.rope)]
    for attention in turned:
        q, k = attention.q, attention.k
        if q is None or k is None or q.projection is None or k.projection is None:
            yield unread("the rotation", "旋转", attention.at)
        elif q.rope is None or k.rope is None:
            mistake = "rope-on-queries-only" if k.rope is None else ""
            one, other = ("keys", "queries") if q.rope is None else ("queries", "keys")
            yield Finding(
                False, attention.at,
                Text(f"{one} are turned by position, {other} are not", "查询与键只有一方做了旋转"), mistake,
            )  # fmt: skip
        else:
            for rope in (q.rope, k.rope):
                note = str(rope["note"])
                if note in WRONG_TURNS:
                    mistake = WRONG_TURNS[note]
                    yield Finding(False, attention.at, told(f"RoPE: {note}"), mistake)
                elif rope["offset"] is None:
                    yield unread("the rotation", "旋转", attention.at)
                elif past and rope["offset"] == -past:
                    yield Finding(
                        False, attention.at,
                        Text("positions begin at 0 again behind a past", "有历史时位置又从 0 开始"),
                        "position-reset-in-decode",
                    )  # fmt: skip
                else:
                    yield fine(attention.at)
    if facts.positions is not None and facts.position_offset is not None:
        if past and facts.position_offset == -past:
            yield Finding(
                False, None,
                Text("positions begin at 0 again behind a past", "有历史时位置又从 0 开始"), "position-reset-in-decode",
            )  # fmt: skip
        else:
            yield fine(None)
