"""Checks of what attentions hide: visibility, padding, fill."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from conformance.judging.graph_findings import Finding, Result, Unknown, fine, unread
from conformance.language.program import Choices, Text
from conformance.told import told

if TYPE_CHECKING:
    from conformance.onnx.facts import AttentionFacts, GraphFacts, MaskFacts


LOWEST = -9999.0
"""A fill above this is outweighed by scores that models have."""


def visibility(facts: GraphFacts, choices: Choices) -> Iterator[Result]:
    """Which key each query sees, with a past and without."""
    causal = str(choices.get("causal", True)).lower() != "false"
    for attention in facts.attentions:
        masks = [attention.mask]
        if attention.mask_without_past is not None:
            masks.append(attention.mask_without_past)
        for mask in masks:
            yield _visible(attention, mask, causal)


def _visible(attention: AttentionFacts, mask: MaskFacts, causal: bool) -> Result:
    at = attention.mask_at if attention.mask_at is not None and mask.kind != "none" else attention.at
    if mask.kind in ("unknown", "window"):
        return unread("the mask", "掩码", at)
    if not causal:
        if mask.kind == "none":
            return fine(at)
        return Finding(
            False,
            at,
            Text(f"the mask is {mask.kind}; nothing is to be hidden here", "此处不应遮蔽任何键"),
            "encoder-causal",
        )
    if mask.kind == "causal" and mask.offset == 0 and not mask.past_ignored:
        return fine(at)
    if any("after the softmax" in problem for problem in attention.problems):
        return Finding(
            False, at,
            Text("the mask is applied after the softmax", "掩码在 softmax 之后才施加"), "mask-after-softmax",
        )  # fmt: skip
    if mask.kind == "none":
        hint = "variant: {causal: false}"
        return Finding(
            False, at,
            Text(
                f"there is no causal mask (of a model that is to read both ways say so with --map: `{hint}`)",
                f"没有因果掩码（若模型本应双向读取，请用 --map 声明：`{hint}`）",
            ),
            "no-mask",
        )  # fmt: skip
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
    example = told(mask.example)
    return Finding(
        False, at, Text(f"the mask is not causal: {example.en}", f"掩码不是因果的：{example.zh}"), mistake
    )


def padding(facts: GraphFacts, choices: Choices) -> Iterator[Result]:
    """A mask that comes in hides what it says."""
    if not any(port.role == "attention_mask" for port in facts.inputs):
        yield Unknown(Text("the graph has no input for a mask", "图没有掩码输入"))
        return
    for attention in facts.attentions:
        hides = attention.mask.padding
        if hides is None:
            yield unread("the mask", "掩码", attention.at)
        elif hides:
            yield fine(attention.at)
        else:
            yield Finding(
                False, attention.at,
                Text("the attention mask that comes in hides nothing here", "输入的注意力掩码在此处没有作用"),
                "padding-ignored",
            )  # fmt: skip


def fill(facts: GraphFacts, choices: Choices) -> Iterator[Result]:
    """Hidden scores are so low that no weight is left."""
    for attention in facts.attentions:
        number = attention.mask.fill
        if attention.mask.kind in ("unknown", "none"):
            yield unread("the mask", "掩码", attention.at)
        elif number is None or number <= LOWEST:
            yield fine(attention.at)
        else:
            yield Finding(
                False, attention.at,
                Text(f"hidden scores get {number:g}, which scores can outweigh", f"被遮蔽的分数取 {number:g}，正常分数可能超过它"),
                "mask-fill-tiny",
            )  # fmt: skip
