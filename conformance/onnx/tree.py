"""The facts of a graph as a tree of text; layers that are alike are written once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from conformance.onnx.facts import (
    AttentionFacts,
    BlockFacts,
    GraphFacts,
    MaskFacts,
    NormFacts,
    OperandFacts,
    Port,
)
from conformance.onnx.tree_zh import WORDS
from conformance.told import told

UNKNOWN = "unknown"
Say = Callable[[str], str]
"""A phrase in the language of the tree."""


def tree(facts: GraphFacts, lang: str = "en") -> str:
    """The tree, one fact a line, in English or Chinese (`zh`)."""
    say = partial(_said, {} if lang == "en" else WORDS)
    return "\n".join(_lines(facts, say)) + "\n"


def _said(words: dict[str, str], text: str) -> str:
    return text if not words else words.get(text) or told(text).zh


def _lines(facts: GraphFacts, say: Say) -> Iterator[str]:
    opsets = ", ".join(f"{domain} {version}" for domain, version in sorted(facts.opset.items()))
    by = say(", written by {0}").format(facts.producer) if facts.producer else ""
    counted = say("{0:,} nodes, {1:,} numbers in weights").format(facts.nodes, facts.parameters)
    yield f"{facts.file}: opset {opsets}{by}; {counted}"
    yield from _list(say("inputs"), [_port(port, say) for port in facts.inputs], say)
    yield from _list(say("outputs"), [_port(port, say) for port in facts.outputs], say)
    caches = say("{0} pairs of past and present").format(len(facts.caches)) if facts.caches else say("none")
    yield f"├─ {say('caches')}: {caches}"
    yield f"├─ {say('embedding')}: {facts.embedding or say(UNKNOWN)}{_positions(facts, say)}"
    yield from _layers(facts, say)
    # Behind logits whose matrix was not found nothing was looked for.
    unfound = facts.final_norm is None and facts.vocabulary_weight is None
    yield f"├─ {say('final norm')}: {say(UNKNOWN) if unfound else _norm(facts.final_norm, say)}"
    tied = {True: ", tied to the embedding", None: ", a tensor of its own", False: ", not tied"}[facts.tied]
    weight = facts.vocabulary_weight
    yield f"├─ {say('vocabulary projection')}: {say(UNKNOWN) if weight is None else weight + say(tied)}"
    known = {name: size for name, size in facts.sizes.items() if size is not None or name != "max_positions"}
    sizes = ", ".join(f"{name} {say(UNKNOWN) if size is None else size}" for name, size in known.items())
    yield f"├─ {say('sizes')}: {sizes}"
    yield f"├─ {say('variant')}: {_variant(facts, say)}"
    tried = ", ".join(f"{say(name)} {size}" for name, size in facts.tried.items() if size)
    if facts.misfits:
        yield f"├─ {say('fixed sizes')}: {say('does not fit at {0}').format(tried)}"
        for misfit in facts.misfits[:5]:
            yield f"│  └─ {misfit.at.node} ({misfit.at.op_type}): {misfit.message}"
    else:
        yield f"├─ {say('fixed sizes')}: {say('none seen at {0}').format(tried)}"
    if facts.random:
        yield f"├─ {say('random')}: {', '.join(f'{at.node} ({at.op_type})' for at in facts.random[:5])}"
    foreign = (say("operators of {0} are not read").format(domain) for domain in facts.foreign)
    for note in (*map(say, facts.notes), *foreign):
        yield f"├─ {say('note')}: {note}"
    unread = ", ".join(f"{name} ({count})" for name, count in sorted(facts.unread.items()))
    yield f"└─ {say('operators not read')}: {unread or say('none')}"


def _list(title: str, lines: list[str], say: Say) -> Iterator[str]:
    yield f"├─ {title}"
    short = lines if len(lines) <= 8 else [*lines[:6], say("… {0} more").format(len(lines) - 7), lines[-1]]
    for i, line in enumerate(short):
        yield f"│  {'└' if i == len(short) - 1 else '├'}─ {line}"


def _port(port: Port, say: Say) -> str:
    shape = (
        "?" if port.shape is None else ", ".join("?" if size is None else str(size) for size in port.shape)
    )
    words, number = (port.role[:-2], port.role[-2:]) if port.role[-1:].isdigit() else (port.role, "")
    role = f": {say(words)}{number}" if port.role and port.role != port.name else ""
    return f"{port.name} {port.dtype} [{shape}]{role}"


def _positions(facts: GraphFacts, say: Say) -> str:
    if facts.positions is None:
        return ""
    offset = say(", its rows not read") if facts.position_offset is None else ""
    if facts.position_offset:
        offset = say(", row = position {0:+d}").format(facts.position_offset)
    return say(", positions {0}").format(facts.positions) + offset


def _layers(facts: GraphFacts, say: Say) -> Iterator[str]:
    if not facts.layers:
        yield f"├─ {say('layers')}: {say(UNKNOWN)}"
    groups: list[tuple[int, int, list[str]]] = []
    for i, layer in enumerate(facts.layers):
        lines = [line for block in layer.blocks for line in _block(facts, block, say)]
        if groups and groups[-1][2] == lines:
            groups[-1] = (groups[-1][0], i, lines)
        else:
            groups.append((i, i, lines))
    for first, last, lines in groups:
        title = say("layer {0}") if first == last else say("layers {0} to {1}, alike")
        yield f"├─ {title.format(first, last)}"
        for line in lines:
            yield f"│  {line}"
    used = {block.attention for layer in facts.layers for block in layer.blocks}
    outside = [a for i, a in enumerate(facts.attentions) if i not in used]
    for attention in outside:
        title = say("attention outside of the layers that were found, at {0} ({1})")
        yield f"├─ {title.format(attention.at.node, attention.at.op_type)}"
        for line in _attention(attention, say):
            yield f"│  {line}"


def _block(facts: GraphFacts, block: BlockFacts, say: Say) -> Iterator[str]:
    source = {
        "weighted": "the stream, multiplied by weights",
        "stream": "the stream",
        "normed": "the normed stream",
        "another": "another value than the branch reads",
        "missing": "nothing: the branch stands in place of the stream",
    }.get(block.source, UNKNOWN)
    if block.attention is not None:
        yield f"├─ {say('attention')}"
        yield from (f"│  {line}" for line in _attention(facts.attentions[block.attention], say))
    elif block.feed_forward is None:
        yield f"├─ {say('a branch that could not be read')}"
    else:
        yield f"├─ {say('feed-forward network')}: {say(block.feed_forward)}"
    yield f"│  ├─ {say('norm before')}: {_norm(block.norm, say)}"
    if block.after is not None:
        yield f"│  ├─ {say('norm after the sum')}: {_norm(block.after, say)}"
    yield f"│  └─ {say('residual from')}: {say(source)}"


def _attention(attention: AttentionFacts, say: Say) -> Iterator[str]:
    yield f"├─ {say('spelled out') if attention.kind == 'decomposed' else attention.kind}"
    heads = attention.heads if attention.heads is not None else say(UNKNOWN)
    kv_heads = attention.kv_heads if attention.kv_heads is not None else say(UNKNOWN)
    shared = {"repeat": ", repeated", "tile": ", tiled", "other": ", shared another way"}.get(
        attention.grouping or "", ""
    )
    width = attention.d_head if attention.d_head is not None else say(UNKNOWN)
    counts = say("heads: {0} of width {1}, key and value heads: {2}").format(heads, width, kv_heads)
    yield f"├─ {counts}{say(shared)}"
    scale = say(UNKNOWN) if attention.scale is None else f"{attention.scale:g}"
    how = say(" and ").join(say(part) for part in attention.scale_how.split(" and "))
    yield f"├─ {say('scale')}: {scale}, {how}"
    yield f"├─ {say('softmax over')}: {say(attention.softmax_axis or UNKNOWN)}"
    yield f"├─ {say('mask')}: {_mask(attention.mask, say)}"
    without = attention.mask_without_past
    if without is not None and (without.kind, without.offset) != (attention.mask.kind, attention.mask.offset):
        yield f"├─ {say('mask without a past')}: {_mask(without, say)}"
    for name, operand in (("q", attention.q), ("k", attention.k), ("v", attention.v)):
        yield f"├─ {name}: {_operand(operand, attention.d_head, say)}"
    for problem in attention.problems:
        yield f"├─ {say('note')}: {say(problem)}"
    yield f"├─ {say('output projection')}: {say('found' if attention.output is not None else UNKNOWN)}"


def _operand(operand: OperandFacts | None, width: int | None, say: Say) -> str:
    if operand is None or operand.projection is None:
        return say(UNKNOWN if operand is None else "projection unknown")
    parts = [say("projected with bias" if operand.bias else "projected")]
    if operand.norm is not None:
        parts.append(say("{0} by head").format(operand.norm))
    if operand.rope is not None:
        layout, theta = operand.rope["layout"] or say(UNKNOWN), operand.rope["theta"]
        base = say(UNKNOWN) if theta is None else format(theta, "g")
        offset, turned = operand.rope["offset"], operand.rope["turned"]
        parts.append(
            say("RoPE {0}, base {1}").format(layout, base)
            + (say(", of the first {0} features").format(turned) if turned and turned != width else "")
            + (say(", positions {0:+d}").format(offset) if offset else "")
            + (f" ({say(operand.rope['note'])})" if operand.rope["note"] else "")
        )
    if operand.past is not None:
        along = {"key": "", None: " along an unknown axis"}.get(
            operand.joined_along, " along another axis than keys"
        )
        parts.append(say(f"joined to its past{along}"))
    return ", ".join(parts)


def _mask(mask: MaskFacts, say: Say) -> str:
    if mask.kind == UNKNOWN:
        return say(UNKNOWN) + (f" ({say(mask.example)})" if mask.example else "")
    parts = [say(mask.kind)]
    if mask.offset:
        parts.append(say("off by {0:+d}").format(mask.offset))
    if mask.past_ignored:
        parts.append(say("its triangle ignores the past"))
    if mask.example:
        parts.append(say(mask.example))
    if mask.padding is not None:
        parts.append(say("padding" if mask.padding else "padding ignored"))
    if mask.fill is not None:
        parts.append(say("fill {0:g}").format(mask.fill))
    return ", ".join(parts)


def _norm(norm: NormFacts | None, say: Say) -> str:
    if norm is None:
        return say("none")
    return f"{norm.kind}, eps {say(UNKNOWN) if norm.eps is None else format(norm.eps, 'g')}"


def _variant(facts: GraphFacts, say: Say) -> str:
    if facts.variant is None:
        why = "; ".join(map(say, facts.beyond)) or say("not enough of the graph was read")
        return f"{say(UNKNOWN)}: {why}"
    return facts.variant if isinstance(facts.variant, str) else repr(facts.variant)
