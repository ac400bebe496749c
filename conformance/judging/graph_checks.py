"""What `graph` claims ask of a graph's facts, one function each.

A check yields one result for each place that it looks at: right, wrong, or not read. Never a guess.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from conformance.language.program import Text

if TYPE_CHECKING:
    from conformance.onnx.facts import AttentionFacts, GraphFacts, MaskFacts, Place

NEAR = 2e-3
"""By how much a scale may be off: float16 keeps three digits."""
LOWEST = -9999.0
"""A fill above this is outweighed by scores that models have."""


@dataclass(frozen=True)
class Finding:
    """One place that was looked at. `mistake` is its name in the pack, where it has one."""

    right: bool
    at: Place | None
    says: Text
    mistake: str = ""


@dataclass(frozen=True)
class Unknown:
    """One place that could not be read."""

    why: Text


Result: TypeAlias = Finding | Unknown
Check: TypeAlias = "Callable[[GraphFacts, bool], Iterator[Result]]"

FINE = Text("right", "正确")


def _fine(at: Place | None) -> Finding:
    return Finding(True, at, FINE)


def _unread(what: str, zh: str, at: Place) -> Unknown:
    return Unknown(
        Text(
            f"{what} at {at.node} ({at.op_type}) could not be read",
            f"未能读出 {at.node}（{at.op_type}）处的{zh}",
        )
    )


def softmax_axis(facts: GraphFacts, causal: bool) -> Iterator[Result]:
    """The axis that sums to one is the one contracted with V."""
    del causal
    for attention in facts.attentions:
        axis = attention.softmax_axis
        if axis is None:
            yield _unread("the softmax axis", " softmax 轴", attention.at)
        elif axis == "key":
            yield _fine(attention.at)
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


def scale(facts: GraphFacts, causal: bool) -> Iterator[Result]:
    """The whole factor on q·k is 1/√Dh."""
    del causal
    for attention in facts.attentions:
        if attention.scale is None or attention.d_head is None:
            yield _unread("the scale", "缩放", attention.at)
            continue
        want = 1 / math.sqrt(attention.d_head)
        if abs(attention.scale / want - 1) <= NEAR:
            yield _fine(attention.at)
            continue
        yield Finding(
            False,
            attention.scale_at,
            Text(
                f"scores are multiplied by {attention.scale:g}; with heads of width {attention.d_head} it should be {want:.6g}",
                f"分数乘以 {attention.scale:g}；头宽为 {attention.d_head} 时应为 {want:.6g}",
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


def visibility(facts: GraphFacts, causal: bool) -> Iterator[Result]:
    """Which key each query sees, with a past and without."""
    for attention in facts.attentions:
        masks = [attention.mask]
        if attention.mask_without_past is not None:
            masks.append(attention.mask_without_past)
        for mask in masks:
            yield _visible(attention, mask, causal)


def _visible(attention: AttentionFacts, mask: MaskFacts, causal: bool) -> Result:
    at = attention.mask_at if attention.mask_at is not None and mask.kind != "none" else attention.at
    if mask.kind in ("unknown", "window"):
        return _unread("the mask", "掩码", at)
    if not causal:
        if mask.kind == "none":
            return _fine(at)
        return Finding(
            False,
            at,
            Text(f"the mask is {mask.kind}; nothing is to be hidden here", "此处不应遮蔽任何键"),
            "encoder-causal",
        )
    if mask.kind == "causal" and mask.offset == 0 and not mask.past_ignored:
        return _fine(at)
    if any("after the softmax" in problem for problem in attention.problems):
        return Finding(
            False, at,
            Text("the mask is applied after the softmax", "掩码在 softmax 之后才施加"), "mask-after-softmax",
        )  # fmt: skip
    if mask.kind == "none":
        return Finding(False, at, Text("there is no causal mask", "没有因果掩码"), "no-mask")
    if mask.past_ignored:
        return Finding(
            False, at,
            Text("the triangle begins at the top left, although there is a past", "存在历史，而因果三角仍从左上角开始"),
            "mask-top-left",
        )  # fmt: skip
    if mask.kind == "causal":
        mistake = {1: "mask-sees-next", -1: "mask-hides-self"}.get(mask.offset, "")
        return Finding(
            False, at,
            Text(f"the causal mask is off by {mask.offset:+d}", f"因果掩码偏移了 {mask.offset:+d}"), mistake,
        )  # fmt: skip
    mistake = (
        "causal-inverted"
        if "inverted" in mask.example
        else "causal-upper-triangle"
        if "other way" in mask.example
        else ""
    )
    return Finding(
        False, at, Text(f"the mask is not causal: {mask.example}", f"掩码不是因果的：{mask.example}"), mistake
    )


def padding(facts: GraphFacts, causal: bool) -> Iterator[Result]:
    """A mask that comes in hides what it says."""
    del causal
    if not any(port.role == "attention_mask" for port in facts.inputs):
        yield Unknown(Text("the graph has no input for a mask", "图没有掩码输入"))
        return
    for attention in facts.attentions:
        hides = attention.mask.padding
        if hides is None:
            yield _unread("the mask", "掩码", attention.at)
        elif hides:
            yield _fine(attention.at)
        else:
            yield Finding(
                False, attention.at,
                Text("the attention mask that comes in hides nothing here", "输入的注意力掩码在此处没有作用"),
                "padding-ignored",
            )  # fmt: skip


def fill(facts: GraphFacts, causal: bool) -> Iterator[Result]:
    """Hidden scores are so low that no weight is left."""
    del causal
    for attention in facts.attentions:
        number = attention.mask.fill
        if attention.mask.kind in ("unknown", "none"):
            yield _unread("the mask", "掩码", attention.at)
        elif number is None or number <= LOWEST:
            yield _fine(attention.at)
        else:
            yield Finding(
                False, attention.at,
                Text(f"hidden scores get {number:g}, which scores can outweigh", f"被遮蔽的分数取 {number:g}，正常分数可能超过它"),
                "mask-fill-tiny",
            )  # fmt: skip


def residual(facts: GraphFacts, causal: bool) -> Iterator[Result]:
    """Each sum adds the branch to the stream that the branch came from."""
    del causal
    for layer in facts.layers:
        for block in layer.blocks:
            if block.source == "stream":
                yield _fine(block.at)
            elif block.source == "unknown":
                yield _unread("the residual", "残差", block.at)
            elif block.source == "normed":
                mistake = (
                    "residual-from-normed" if block.attention is not None else "ffn-residual-from-normed"
                )
                yield Finding(
                    False, block.at,
                    Text("the residual comes from the normed stream", "残差取自归一化之后的值"), mistake,
                )  # fmt: skip
            elif block.source == "missing":
                mistake = "residual-overwritten" if block.attention is not None else "ffn-residual-missing"
                yield Finding(
                    False,
                    block.at,
                    Text(
                        "the branch stands in place of the stream; nothing is added",
                        "分支取代了残差通路，没有相加",
                    ),
                    mistake,
                )
            else:
                mistake = "ffn-residual-from-x" if block.attention is None else ""
                yield Finding(
                    False, block.at,
                    Text(
                        "the residual is another value than the one that the branch reads",
                        "残差与该分支所读的不是同一个值",
                    ),
                    mistake,
                )  # fmt: skip
    if not facts.layers:
        yield Unknown(Text("the residual stream could not be followed", "未能沿残差通路追踪"))


def sublayers(facts: GraphFacts, causal: bool) -> Iterator[Result]:
    """Every layer has its attention and its feed-forward network."""
    del causal
    if not facts.layers:
        yield Unknown(Text("the residual stream could not be followed", "未能沿残差通路追踪"))
    skipped = {block.source == "another" for layer in facts.layers for block in layer.blocks}
    for i, layer in enumerate(facts.layers):
        kinds = [block.kind for block in layer.blocks]
        at = layer.blocks[-1].at
        if "unknown" in kinds:
            yield _unread("a branch", "分支", at)
        elif kinds == ["attention", "feed_forward"] or (True in skipped and len(kinds) < 2):
            yield _fine(
                at
            )  # a sum that takes a wrong residual hides its neighbour; that is `residual`'s to say
        elif kinds == ["feed_forward"]:
            yield Finding(
                False, at, Text(f"layer {i} has no attention", f"第 {i} 层没有注意力"), "attention-missing"
            )
        elif kinds == ["attention"]:
            yield Finding(
                False,
                at,
                Text(f"layer {i} has no feed-forward network", f"第 {i} 层没有前馈网络"),
                "ffn-missing",
            )
        else:
            yield _unread("the layer", "层结构", at)


def heads(facts: GraphFacts, causal: bool) -> Iterator[Result]:
    """Query head h reads key and value head h // group; heads are split and merged as columns."""
    del causal
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
            yield _unread("the heads", "头的划分", attention.at)
        elif attention.grouping in ("none", "repeat"):
            yield _fine(attention.at)
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


def lengths(facts: GraphFacts, causal: bool) -> Iterator[Result]:
    """Any batch and any length that the inputs allow fits."""
    del causal
    tokens = next((port for port in facts.inputs if port.role == "tokens"), None)
    tried = ", ".join(f"{name} {size}" for name, size in facts.tried.items() if size)
    if facts.misfits:
        misfit = facts.misfits[0]
        yield Finding(
            False, misfit.at,
            Text(f"a size is built in: at {tried}, {misfit.message}", f"某个尺寸被写死：{tried} 时 {misfit.message}"),
        )  # fmt: skip
    elif tokens is None or tokens.shape is None or any(isinstance(size, int) for size in tokens.shape):
        yield Unknown(
            Text("the tokens' batch and length are declared as fixed", "词元的批大小与长度被声明为固定")
        )
    else:
        yield _fine(None)


def cache(facts: GraphFacts, causal: bool) -> Iterator[Result]:
    """Keys and values of a past come first, along the key axis, in every layer."""
    del causal
    if not facts.caches:
        yield Unknown(Text("the graph has no caches", "图没有缓存"))
        return
    for attention in facts.attentions:
        for name, operand in (("keys", attention.k), ("values", attention.v)):
            zh = "键" if name == "keys" else "值"
            if operand is None or operand.reads_past is None:
                yield _unread(f"the {name}", zh, attention.at)
            elif not operand.reads_past:
                yield Finding(
                    False,
                    attention.at,
                    Text(f"no number of the past reaches the {name}", f"历史的{zh}没有被读到"),
                    "cache-forgotten",
                )
            elif operand.joined_along is None:
                yield _unread(f"how the {name} join their past", f"{zh}与历史的拼接", attention.at)
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
                yield _fine(attention.at)


def projections(facts: GraphFacts, causal: bool) -> Iterator[Result]:
    """Queries, keys and values have matrices of their own, in every layer."""
    del causal
    seen: dict[tuple[str, int | None], tuple[int, str]] = {}
    for i, attention in enumerate(facts.attentions):
        for name, operand in (("q", attention.q), ("k", attention.k), ("v", attention.v)):
            if operand is None or operand.weight is None or operand.first_column is None:
                yield _unread(f"the projection of {name}", f" {name} 的投影", attention.at)
                continue
            key = (operand.weight, operand.first_column)
            if key not in seen:
                seen[key] = (i, name)
                yield _fine(attention.at)
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


def positions(facts: GraphFacts, causal: bool) -> Iterator[Result]:
    """Queries and keys are both turned, by the position that the token has, also behind a past."""
    del causal
    past = facts.tried.get("past", 0)
    turned = [a for a in facts.attentions if (a.q and a.q.rope) or (a.k and a.k.rope)]
    for attention in turned:
        q, k = attention.q, attention.k
        if q is None or k is None or q.projection is None or k.projection is None:
            yield _unread("the rotation", "旋转", attention.at)
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
                if note.startswith(("no rotation", "turned backwards", "lengths change")):
                    mistake = {"n": "rope-sign-lost", "t": "rope-turned-backwards"}.get(note[0], "")
                    yield Finding(False, attention.at, Text(f"RoPE: {note}", f"RoPE：{note}"), mistake)
                elif rope["offset"] is None:
                    yield _unread("the rotation", "旋转", attention.at)
                elif past and rope["offset"] == -past:
                    yield Finding(
                        False, attention.at,
                        Text("positions begin at 0 again behind a past", "有历史时位置又从 0 开始"),
                        "position-reset-in-decode",
                    )  # fmt: skip
                else:
                    yield _fine(attention.at)
    if facts.positions is not None and facts.position_offset is not None:
        if past and facts.position_offset == -past:
            yield Finding(
                False, None,
                Text("positions begin at 0 again behind a past", "有历史时位置又从 0 开始"), "position-reset-in-decode",
            )  # fmt: skip
        else:
            yield _fine(None)


def random(facts: GraphFacts, causal: bool) -> Iterator[Result]:
    """Nothing in the graph draws numbers."""
    del causal
    for at in facts.random:
        yield Finding(
            False,
            at,
            Text(f"{at.op_type} draws numbers at every run", f"{at.op_type} 每次运行都会抽取随机数"),
        )
    if not facts.random:
        yield _fine(None)


CHECKS: Mapping[str, Check] = {
    "softmax-axis": softmax_axis,
    "scale": scale,
    "visibility": visibility,
    "padding": padding,
    "fill": fill,
    "residual": residual,
    "sublayers": sublayers,
    "heads": heads,
    "lengths": lengths,
    "cache": cache,
    "projections": projections,
    "positions": positions,
    "random": random,
}
"""By the name that a claim gives."""
