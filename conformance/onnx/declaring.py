"""The variant as an adapter would declare it, and what no variant has."""

from __future__ import annotations

import math
from typing import Any

from conformance.onnx.fused import QUANTISED
from conformance.onnx.norms import RMS_NORM
from conformance.onnx.structure import Structure
from conformance.onnx.visibility import BIASED

BASES: dict[str, dict[str, Any]] = {
    # The named variants of the pack that a lone graph can be of, by what tells them apart.
    "gpt2": {"norm": "layer_norm", "position": "learned", "ffn": "gelu_tanh", "bias": "all"},
    "llama": {"norm": "rms_norm", "position": "rope", "ffn": "swiglu"},
}


AFTER_TURNING = "queries and keys are normed after RoPE"
WEIGHTED = "the residual is multiplied by weights"
FAMILIAR = ("relu", "gelu", "gelu_tanh", "swiglu", "geglu", "geglu_tanh")


def unusual(structure: Structure) -> list[str]:
    """What no variant of the document has."""
    found = []
    traced = [t for a in structure.attentions for t in (a.q, a.k) if t is not None]
    if any(t.norm is not None for t in traced) and not normed_by_head(structure):
        found.append("queries and keys are normed")
    elif normed_turned(structure):
        found.append(AFTER_TURNING)
    embedding = structure.embedding
    if embedding is not None and embedding.norm is not None:
        found.append("the embedding is normed")
    found += _embedded(structure)
    if any(b.source_is == "weighted" for layer in structure.layers for b in layer.blocks):
        found.append(WEIGHTED)
    if structure.head is not None and structure.head.network:
        found.append("the logits come from a network of their own behind the layers")
    kinds = {
        b.feed_forward.kind for layer in structure.layers for b in layer.blocks if b.feed_forward is not None
    }
    found += [
        f"the feed-forward network is {kind}" for kind in sorted(kinds) if kind not in (*FAMILIAR, "unknown")
    ]
    notes = {r.note for r in structure.ropes.values() if r.note and r.layout is not None}
    found += [
        f"RoPE: {note}" for note in sorted(notes) if note not in ("its tables are not read", "not read")
    ]
    if any(a.scale is None and "softcap" in a.scale_how for a in structure.attentions):
        found.append("scores are capped")
    if any(a.visibility.kind == "window" for a in structure.attentions):
        found.append("attention sees a window")
    if any(a.visibility.example == BIASED for a in structure.attentions):
        found.append("scores get biases beside the mask")
    return found


def _embedded(structure: Structure) -> list[str]:
    """What the embedding does that no variant has."""
    embedding = structure.embedding
    if embedding is None:
        return []
    found = []
    factor = embedding.scale
    if factor is None or not (math.isclose(factor, 1, rel_tol=1e-6) or by_root_of_width(structure)):
        by = "numbers that are not one" if factor is None else f"{factor:.6g}"
        found.append(f"the embedding is multiplied by {by}")
    if structure.positions_of_tokens:
        found.append("the rows of its position table depend on which tokens there are")
    return found


def by_root_of_width(structure: Structure) -> bool:
    """Whether the embedding is multiplied by √D."""
    factor = None if structure.embedding is None else structure.embedding.scale
    begin = structure.walk.partial.shape(structure.begin)
    return bool(factor is not None and begin and math.isclose(factor, math.sqrt(begin[-1]), rel_tol=1e-4))


def normed_by_head(structure: Structure) -> bool:
    """Whether most attentions norm queries and keys as the document does: RMSNorm, one gain for all heads."""
    fits = []
    for attention in structure.attentions:
        norms = [None if t is None else t.norm for t in (attention.q, attention.k)]
        fits.append(
            all(
                n is not None
                and n.kind == RMS_NORM
                and structure.walk.partial.shape(n.gain) == (attention.d_head,)
                for n in norms
            )
        )
    return 2 * sum(fits) > len(fits)


def normed_turned(structure: Structure) -> bool:
    """Whether every attention norms queries and keys behind their rotation, as Hunyuan does: a model of its own."""
    order = structure.walk.order
    return bool(structure.attentions) and all(
        t is not None
        and t.norm is not None
        and t.rotation is not None
        and order[t.norm.node] > order[t.rotation.node]
        for a in structure.attentions
        for t in (a.q, a.k)
    )


def foreign(structure: Structure) -> list[str]:
    """What a whole model does that no variant has, so that it is another model and not a wrong one."""
    attentions = structure.attentions
    found = []
    rounded = sorted({node.op_type for node in structure.walk.graph} & QUANTISED)
    if rounded:
        found.append(f"its numbers are quantised ({', '.join(rounded)})")
    normed = attentions and all(a.q is not None and a.q.norm is not None for a in attentions)
    if normed and not normed_by_head(structure):
        found.append("queries and keys are normed")
    elif normed_turned(structure):
        found.append(AFTER_TURNING)
    if structure.embedding is not None and structure.embedding.norm is not None:
        found.append("the embedding is normed")
    found += _embedded(structure)
    if any(b.source_is == "weighted" for layer in structure.layers for b in layer.blocks):
        found.append(WEIGHTED)
    if structure.head is not None and structure.head.network:
        found.append("the logits come from a network of their own behind the layers")
    kinds = [
        b.feed_forward.kind for layer in structure.layers for b in layer.blocks if b.feed_forward is not None
    ]
    if kinds and not set(kinds) & set(FAMILIAR):
        found.append(f"the feed-forward network is {kinds[0]}")
    if any("frequencies" in rope.note for rope in structure.ropes.values()):
        found.append("RoPE: frequencies are not powers of one base")
    if attentions and all("softcap" in a.scale_how or "plain factor" in a.scale_how for a in attentions):
        found.append("scores are capped")
    if attentions and all(a.visibility.kind == "window" for a in attentions):
        found.append("attention sees a window")
    if attentions and all(a.visibility.example == BIASED for a in attentions):
        found.append("scores get biases beside the mask")
    return found


def declared(choices: dict[str, Any], beyond: list[str]) -> dict[str, Any] | str | None:
    """The variant as an adapter would declare it: a name, or a base and what differs."""
    needed = ("norm", "norm_placement", "position", "ffn", "bias", "causal")
    if beyond or any(choices.get(name) is None for name in needed) or choices["ffn"] not in FAMILIAR:
        return None
    base = next(
        (n for n, told in BASES.items() if all(choices.get(k) == v for k, v in told.items())), "minimal"
    )
    own = {
        "minimal": {
            "norm_bias": True,
            "bias": "none",
            "norm": "layer_norm",
            "position": "none",
            "ffn": "relu",
        },
        "gpt2": {"norm_bias": True, "tie_embeddings": True, **BASES["gpt2"]},
        "llama": {"norm_bias": False, "bias": "none", **BASES["llama"]},
    }[base]
    usual = {
        "norm_placement": "pre", "norm_eps": 1e-5, "final_norm": True, "rope_theta": 10000.0, "rope_layout": "half",
        "rotary_fraction": 1,
        "causal": True, "tie_embeddings": False, "embed_scale": 1, "qk_norm": "none", **own,
    }  # fmt: skip
    differs = {k: v for k, v in choices.items() if v is not None and usual.get(k) != v}
    return {"base": base, **differs} if differs else base
