"""The variant that a graph is of, as an adapter would declare it, and its sizes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from conformance.onnx.declaring import by_root_of_width, normed_by_head, normed_turned
from conformance.onnx.ends import token_tables
from conformance.onnx.norms import LAYER_NORM
from conformance.onnx.structure import Structure

if TYPE_CHECKING:
    import onnx_ir as ir

T = TypeVar("T", bound=Hashable)
CONTRADICTION = "differs between layers"


def agreed(values: Iterable[T]) -> T | None:
    """The one value that most of all agree on, None where there is none."""
    counts = Counter(values)
    return counts.most_common(1)[0][0] if counts else None


def sizes(structure: Structure) -> dict[str, int | None]:
    """Sizes by the contract's names; None where they could not be read."""
    walk = structure.walk
    attentions = [b.attention for layer in structure.layers for b in layer.blocks if b.attention is not None]
    networks = [
        b.feed_forward for layer in structure.layers for b in layer.blocks if b.feed_forward is not None
    ]
    begin = walk.partial.shape(structure.begin)
    logits = walk.partial.shape(structure.interface.logits)
    positions = None
    if structure.embedding is not None and structure.embedding.positions is not None:
        table = structure.embedding.positions.shape
        positions = int(table[0]) if table is not None and isinstance(table[0], int) else None
        if positions is not None:
            positions -= rows_before(structure)
    hidden = [walk.partial.shape(network.hidden) for network in networks]
    rows, columns = _token_table(structure)
    return {
        "n_layers": len(structure.layers) or None,
        "d_model": begin[-1] if begin else columns,
        "n_heads": agreed(a.heads for a in attentions if a.heads),
        "n_kv_heads": agreed(a.kv_heads for a in attentions if a.kv_heads),
        "d_head": agreed(a.d_head for a in attentions if a.d_head),
        "d_value": agreed(a.d_value for a in attentions if a.d_value),
        "d_ff": agreed(shape[-1] for shape in hidden if shape),
        "vocab_size": logits[-1] if logits else _declared_last(structure) or rows,
        "max_positions": positions,
    }


def rows_before(structure: Structure) -> int:
    """How many rows of the position table stand before that of position 0."""
    return max(structure.position_offset or 0, 0)


def _token_table(structure: Structure) -> tuple[int | None, int | None]:
    """Rows and columns of the table that the tokens are looked up in."""
    for table in token_tables(structure.walk, structure.interface.tokens):
        shape = structure.walk.partial.shape(table)
        if shape is not None and len(shape) == 2:
            return shape
    return None, None


def vocabulary(structure: Structure) -> int | None:
    """How many tokens the table of the embedding has; None where it was not found."""
    return _token_table(structure)[0]


def _declared_last(structure: Structure) -> int | None:
    """How many logits a graph says that it has for each token."""
    logits = structure.interface.logits
    shape = None if logits is None or logits.shape is None else list(logits.shape)
    return shape[-1] if shape and isinstance(shape[-1], int) else None


def choices(structure: Structure) -> dict[str, Any]:
    """The document's choices as far as they were read."""
    found: dict[str, Any] = {}
    blocks = [block for layer in structure.layers for block in layer.blocks]
    norms = [n for b in blocks for n in (b.norm, b.after) if n is not None]
    head = structure.head
    if head is not None and head.norm is not None:
        norms.append(head.norm)
    if norms:
        found["norm"] = agreed(n.kind for n in norms)
        eps = agreed(n.eps for n in norms if n.eps is not None)
        if eps is not None:
            found["norm_eps"] = rounded(eps)
        if found["norm"] == LAYER_NORM:
            found["norm_bias"] = agreed(n.bias is not None for n in norms)
        else:
            found["norm_bias"] = False
    if blocks:
        found["norm_placement"] = "post" if agreed(b.after is not None for b in blocks) else "pre"
    if head is not None and head.projection is not None:
        found["final_norm"] = head.norm is not None and found.get("norm_placement") != "post"
        if head.tied:
            found["tie_embeddings"] = True
    if normed_by_head(structure):
        found["qk_norm"] = "head"
    # Behind a norm with gains, scores depend on more than differences of positions, and a bias of the keys stays.
    turned_first = normed_turned(structure)
    found |= {} if turned_first else _position(structure)
    kinds = [b.feed_forward.kind for b in blocks if b.feed_forward is not None]
    if kinds:
        found["ffn"] = agreed(kinds)
    bias = _bias(structure)
    if bias is not None and not turned_first:
        found["bias"] = bias
    seen = [b.attention.visibility.kind for b in blocks if b.attention is not None]
    if seen:
        kind = agreed(seen)
        if kind in ("causal", "none"):
            found["causal"] = kind == "causal"
    return found


def _position(structure: Structure) -> dict[str, Any]:
    ropes = [r for a in structure.attentions for w in "qk" if (r := structure.rope_of(a, w)) is not None]
    embedding = structure.embedding
    scaled = {"embed_scale": "sqrt(D)"} if embedding is not None and by_root_of_width(structure) else {}
    if ropes:
        theta = agreed(r.theta for r in ropes if r.theta is not None)
        layout = agreed(r.layout for r in ropes if r.layout is not None)
        found: dict[str, Any] = {"position": "rope", **scaled}
        if layout is not None:
            found["rope_layout"] = layout
        if theta is not None:
            found["rope_theta"] = rounded(theta)
        part = agreed(turned_part(structure).values())
        if part is not None and part < 1:
            found["rotary_fraction"] = part
        return found
    if embedding is None:
        return {}
    if embedding.positions is not None:
        return {"position": "learned", **scaled}
    if embedding.added is not None:  # what is no table of the file and no sinusoid is not known
        return {"position": "sinusoidal", **scaled} if _adds_sinusoids(structure, embedding.added) else scaled
    return {"position": "none", **scaled}


def _adds_sinusoids(structure: Structure, added: ir.Value) -> bool:
    """Whether what is added to the tokens is known, and is the document's: sin at even, cos at odd features."""
    known = structure.walk.partial.known(added)
    tokens = structure.setting.tokens
    if known is None or known.ndim < 2 or known.shape[-2] != tokens:
        return False
    first = structure.setting.past if structure.interface.states else 0
    width = known.shape[-1]
    even = np.arange(width) // 2 * 2
    angles = np.arange(first, first + tokens)[:, None] / 10000.0 ** (even / width)
    wanted = np.where(np.arange(width) % 2 == 0, np.sin(angles), np.cos(angles))
    return bool(np.allclose(known, wanted, rtol=0, atol=1e-3))


def reads_both_ways(structure: Structure) -> bool:
    """Whether a graph is plainly an encoder of BERT's kind, which nobody expects to be causal.

    No attention hides what comes later, nothing is cached, and before the vocabulary stands a network, as a masked
    language model has it.
    """
    head = structure.head
    if structure.interface.states or not structure.attentions or head is None or not head.network:
        return False
    return all(attention.visibility.kind == "none" for attention in structure.attentions)


def turned_part(structure: Structure) -> dict[int, float]:
    """Of each attention whose features turn, which part of a head does, as far as it was read."""
    found = {}
    for i, attention in enumerate(structure.attentions):
        rope = structure.rope_of(attention, "q") or structure.rope_of(attention, "k")
        if rope is not None and rope.turned and attention.d_head:
            found[i] = rope.turned / attention.d_head
    return found


def _bias(structure: Structure) -> str | None:
    """none, qkv, ffn or all, None where layers have another mixture."""
    found: dict[str, set[bool]] = {"qkv": set(), "out": set(), "ffn": set()}
    for layer in structure.layers:
        for block in layer.blocks:
            skipping = block.node.op_type.startswith("Skip") and len(block.node.inputs) > 3
            fused_bias = skipping and block.node.inputs[-1] is not None and _adds_bias(block.node)
            ends = "ffn" if block.attention is None else "out"
            found[ends].add(block.branch.bias is not None or fused_bias)
            if block.attention is not None:
                for traced in (block.attention.q, block.attention.k, block.attention.v):
                    if traced is not None and traced.projection is not None:
                        found["qkv"].add(traced.projection.bias is not None)
            if block.feed_forward is not None:
                found["ffn"].add(block.feed_forward.bias is not None)
    if any(len(kinds) != 1 for kinds in found.values()):
        return None
    has = tuple(name for name, kinds in found.items() if kinds == {True})
    return {(): "none", ("qkv",): "qkv", ("ffn",): "ffn", ("qkv", "out", "ffn"): "all"}.get(has)


def _adds_bias(node: Any) -> bool:
    return len(node.inputs) > (3 if "Simplified" in node.op_type else 4)


def rounded(value: float) -> float:
    """A float32 constant as the decimal number that was meant."""
    return float(f"{value:.6g}")
