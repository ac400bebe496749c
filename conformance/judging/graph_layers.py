"""Checks of layers and of the whole graph: residuals, sublayers, networks, lengths, randomness."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from conformance.judging.graph_findings import Finding, Result, Unknown, fine, unread
from conformance.language.program import Choices, Text

if TYPE_CHECKING:
    from conformance.onnx.facts import GraphFacts


def residual(facts: GraphFacts, choices: Choices) -> Iterator[Result]:
    """Each sum adds the branch to the stream that the branch came from."""
    for layer in facts.layers:
        for block in layer.blocks:
            if block.source == "stream":
                yield fine(block.at)
            elif block.source == "weighted":
                yield Unknown(Text("the residual is multiplied by weights", "残差乘以了权重"))
            elif block.source == "unknown":
                yield unread("the residual", "残差", block.at)
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


def sublayers(facts: GraphFacts, choices: Choices) -> Iterator[Result]:
    """Every layer has its attention and its feed-forward network."""
    if not facts.layers:
        yield Unknown(Text("the residual stream could not be followed", "未能沿残差通路追踪"))
    skipped = {block.source == "another" for layer in facts.layers for block in layer.blocks}
    # What is not read may be an attention, and the sums around it are then grouped otherwise.
    lost = facts.unread or any(block.kind == "unknown" for layer in facts.layers for block in layer.blocks)
    for i, layer in enumerate(facts.layers):
        kinds = [block.kind for block in layer.blocks]
        at = layer.blocks[-1].at
        if "unknown" in kinds or (lost and kinds != ["attention", "feed_forward"]):
            yield unread("a branch", "分支", at)
        elif kinds == ["attention", "feed_forward"] or (True in skipped and len(kinds) < 2):
            yield fine(
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
            yield unread("the layer", "层结构", at)


FAMILIAR = ("relu", "gelu", "gelu_tanh", "swiglu", "geglu", "geglu_tanh")
"""Networks that the document has."""
NETWORKS: Mapping[tuple[str, str], str] = {
    ("swiglu", "silu"): "up-unused",
    ("swiglu", "gated sigmoid"): "sigmoid-for-silu",
    ("swiglu", "gated relu"): "relu-for-silu",
    ("swiglu", "gated none"): "gate-without-activation",
    ("gelu", "gelu_tanh"): "gelu-tanh-for-erf",
    ("gelu_tanh", "gelu"): "gelu-erf-for-tanh",
    ("gelu", "relu"): "relu-for-gelu",
    ("gelu_tanh", "relu"): "relu-for-gelu",
}
"""What is the matter where a network is the second instead of the first."""


def networks(facts: GraphFacts, choices: Choices) -> Iterator[Result]:
    """All layers have the same kind of feed-forward network."""
    found = [(b.at, b.feed_forward) for layer in facts.layers for b in layer.blocks if b.feed_forward]
    familiar = [kind for _, kind in found if kind in FAMILIAR]
    # Of two layers that differ, the one that is what the model is held to be is the usual one.
    held = choices.get("ffn")
    usual = max(dict.fromkeys(familiar), key=lambda kind: (familiar.count(kind), kind == held), default="")
    for at, kind in found:
        if "unknown" in kind or not usual:
            yield unread("the network", "前馈网络", at)
        elif kind == usual:
            yield fine(at)
        else:
            mistake = "activation-missing" if kind == "none" else NETWORKS.get((usual, kind), "")
            said = "without an activation" if kind == "none" else kind
            yield Finding(
                False,
                at,
                Text(f"the network is {said}, others are {usual}", f"该前馈网络为 {said}，其他层为 {usual}"),
                mistake,
            )


def lengths(facts: GraphFacts, choices: Choices) -> Iterator[Result]:
    """Any batch and any length that the inputs allow fits."""
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
        yield fine(None)


def random(facts: GraphFacts, choices: Choices) -> Iterator[Result]:
    """Nothing in the graph draws numbers."""
    for at in facts.random:
        yield Finding(
            False,
            at,
            Text(f"{at.op_type} draws numbers at every run", f"{at.op_type} 每次运行都会抽取随机数"),
        )
    if not facts.random:
        yield fine(None)
