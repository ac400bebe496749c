"""The facts of a graph as a tree of text; layers that are alike are written once."""

from __future__ import annotations

from collections.abc import Iterator

from conformance.onnx.facts import (
    AttentionFacts,
    BlockFacts,
    GraphFacts,
    MaskFacts,
    NormFacts,
    OperandFacts,
    Port,
)

UNKNOWN = "unknown"


def tree(facts: GraphFacts) -> str:
    """The tree, one fact a line."""
    return "\n".join(_lines(facts)) + "\n"


def _lines(facts: GraphFacts) -> Iterator[str]:
    opsets = ", ".join(f"{domain} {version}" for domain, version in sorted(facts.opset.items()))
    by = f", written by {facts.producer}" if facts.producer else ""
    yield f"{facts.file}: opset {opsets}{by}; {facts.nodes:,} nodes, {facts.parameters:,} numbers in weights"
    yield from _list("inputs", [_port(port) for port in facts.inputs])
    yield from _list("outputs", [_port(port) for port in facts.outputs])
    yield f"├─ caches: {len(facts.caches)} pairs of past and present" if facts.caches else "├─ caches: none"
    yield f"├─ embedding: {facts.embedding or UNKNOWN}{_positions(facts)}"
    yield from _layers(facts)
    yield f"├─ final norm: {_norm(facts.final_norm)}"
    tied = {True: ", tied to the embedding", None: ", a tensor of its own", False: ", not tied"}[facts.tied]
    weight = facts.vocabulary_weight
    yield f"├─ vocabulary projection: {UNKNOWN if weight is None else weight + tied}"
    known = {name: size for name, size in facts.sizes.items() if size is not None or name != "max_positions"}
    sizes = ", ".join(f"{name} {UNKNOWN if size is None else size}" for name, size in known.items())
    yield f"├─ sizes: {sizes}"
    yield f"├─ variant: {_variant(facts)}"
    tried = ", ".join(f"{name} {size}" for name, size in facts.tried.items() if size)
    if facts.misfits:
        yield f"├─ fixed sizes: does not fit at {tried}"
        for misfit in facts.misfits[:5]:
            yield f"│  └─ {misfit.at.node} ({misfit.at.op_type}): {misfit.message}"
    else:
        yield f"├─ fixed sizes: none seen at {tried}"
    if facts.random:
        yield f"├─ random: {', '.join(f'{at.node} ({at.op_type})' for at in facts.random[:5])}"
    for note in (*facts.notes, *(f"operators of {domain} are not read" for domain in facts.foreign)):
        yield f"├─ note: {note}"
    unread = ", ".join(f"{name} ({count})" for name, count in sorted(facts.unread.items())) or "none"
    yield f"└─ operators not read: {unread}"


def _list(title: str, lines: list[str]) -> Iterator[str]:
    yield f"├─ {title}"
    short = lines if len(lines) <= 8 else [*lines[:6], f"… {len(lines) - 7} more", lines[-1]]
    for i, line in enumerate(short):
        yield f"│  {'└' if i == len(short) - 1 else '├'}─ {line}"


def _port(port: Port) -> str:
    shape = (
        "?" if port.shape is None else ", ".join("?" if size is None else str(size) for size in port.shape)
    )
    role = f": {port.role}" if port.role and port.role != port.name else ""
    return f"{port.name} {port.dtype} [{shape}]{role}"


def _positions(facts: GraphFacts) -> str:
    if facts.positions is None:
        return ""
    offset = {None: ", its rows not read", 0: ""}.get(
        facts.position_offset, f", row = position {facts.position_offset:+d}" if facts.position_offset else ""
    )
    return f", positions {facts.positions}{offset}"


def _layers(facts: GraphFacts) -> Iterator[str]:
    if not facts.layers:
        yield f"├─ layers: {UNKNOWN}"
    groups: list[tuple[int, int, list[str]]] = []
    for i, layer in enumerate(facts.layers):
        lines = [line for block in layer.blocks for line in _block(facts, block)]
        if groups and groups[-1][2] == lines:
            groups[-1] = (groups[-1][0], i, lines)
        else:
            groups.append((i, i, lines))
    for first, last, lines in groups:
        yield f"├─ layer {first}" if first == last else f"├─ layers {first} to {last}, alike"
        for line in lines:
            yield f"│  {line}"
    used = {block.attention for layer in facts.layers for block in layer.blocks}
    outside = [a for i, a in enumerate(facts.attentions) if i not in used]
    for attention in outside:
        yield f"├─ attention outside of the layers that were found, at {attention.at.node} ({attention.at.op_type})"
        for line in _attention(attention):
            yield f"│  {line}"


def _block(facts: GraphFacts, block: BlockFacts) -> Iterator[str]:
    source = {
        "stream": "the stream",
        "normed": "the normed stream",
        "another": "another value than the branch reads",
        "missing": "nothing: the branch stands in place of the stream",
    }.get(block.source, UNKNOWN)
    if block.attention is not None:
        yield "├─ attention"
        yield from (f"│  {line}" for line in _attention(facts.attentions[block.attention]))
    else:
        yield f"├─ feed-forward network: {block.feed_forward or UNKNOWN}"
    yield f"│  ├─ norm before: {_norm(block.norm)}"
    if block.after is not None:
        yield f"│  ├─ norm after the sum: {_norm(block.after)}"
    yield f"│  └─ residual from: {source}"


def _attention(attention: AttentionFacts) -> Iterator[str]:
    yield f"├─ {'spelled out' if attention.kind == 'decomposed' else attention.kind}"
    heads = attention.heads if attention.heads is not None else UNKNOWN
    kv_heads = attention.kv_heads if attention.kv_heads is not None else UNKNOWN
    shared = {"repeat": ", repeated", "tile": ", tiled", "other": ", shared another way"}.get(
        attention.grouping or "", ""
    )
    width = attention.d_head if attention.d_head is not None else UNKNOWN
    yield f"├─ heads: {heads} of width {width}, key and value heads: {kv_heads}{shared}"
    scale = UNKNOWN if attention.scale is None else f"{attention.scale:g}"
    yield f"├─ scale: {scale}, {attention.scale_how}"
    yield f"├─ softmax over: {attention.softmax_axis or UNKNOWN}"
    yield f"├─ mask: {_mask(attention.mask)}"
    without = attention.mask_without_past
    if without is not None and (without.kind, without.offset) != (attention.mask.kind, attention.mask.offset):
        yield f"├─ mask without a past: {_mask(without)}"
    for name, operand in (("q", attention.q), ("k", attention.k), ("v", attention.v)):
        yield f"├─ {name}: {_operand(operand)}"
    for problem in attention.problems:
        yield f"├─ note: {problem}"
    yield f"├─ output projection: {'found' if attention.output is not None else UNKNOWN}"


def _operand(operand: OperandFacts | None) -> str:
    if operand is None or operand.projection is None:
        return UNKNOWN if operand is None else f"projection {UNKNOWN}"
    parts = [f"projected{' with bias' if operand.bias else ''}"]
    if operand.norm is not None:
        parts.append(f"{operand.norm} by head")
    if operand.rope is not None:
        layout, theta = operand.rope["layout"] or UNKNOWN, operand.rope["theta"]
        offset = operand.rope["offset"]
        parts.append(
            f"RoPE {layout}, base {UNKNOWN if theta is None else format(theta, 'g')}"
            + (f", positions {offset:+d}" if offset else "")
            + (f" ({operand.rope['note']})" if operand.rope["note"] else "")
        )
    if operand.past is not None:
        along = {"key": "", None: " along an unknown axis"}.get(
            operand.joined_along, " along another axis than keys"
        )
        parts.append(f"joined to its past{along}")
    return ", ".join(parts)


def _mask(mask: MaskFacts) -> str:
    if mask.kind == UNKNOWN:
        return UNKNOWN + (f" ({mask.example})" if mask.example else "")
    parts = [mask.kind]
    if mask.offset:
        parts.append(f"off by {mask.offset:+d}")
    if mask.past_ignored:
        parts.append("its triangle ignores the past")
    if mask.example:
        parts.append(mask.example)
    if mask.padding is not None:
        parts.append("padding" if mask.padding else "padding ignored")
    if mask.fill is not None:
        parts.append(f"fill {mask.fill:g}")
    return ", ".join(parts)


def _norm(norm: NormFacts | None) -> str:
    if norm is None:
        return "none"
    return f"{norm.kind}, eps {UNKNOWN if norm.eps is None else format(norm.eps, 'g')}"


def _variant(facts: GraphFacts) -> str:
    if facts.variant is None:
        why = "; ".join(facts.beyond) or "not enough of the graph was read"
        return f"{UNKNOWN}: {why}"
    return facts.variant if isinstance(facts.variant, str) else repr(facts.variant)
