"""From a structure to facts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from conformance.onnx import facts, variant
from conformance.onnx.attention import Attention
from conformance.onnx.declaring import declared, unusual
from conformance.onnx.norms import Norm
from conformance.onnx.projections import Traced, find_projection
from conformance.onnx.reading import foreign_domains
from conformance.onnx.rope import Rope
from conformance.onnx.stream import Block
from conformance.onnx.structure import Structure
from conformance.onnx.visibility import Visibility

if TYPE_CHECKING:
    import onnx_ir as ir


def describe(structure: Structure, file: str) -> facts.GraphFacts:
    """The facts of a structure."""
    model, interface, walk = structure.model, structure.interface, structure.walk
    roles = {
        interface.tokens: "tokens",
        interface.attention_mask: "attention_mask",
        interface.positions: "positions",
    }
    for state in interface.states:
        roles |= {state.past_key: f"past key {state.layer}", state.past_value: f"past value {state.layer}"}
        roles |= {
            state.present_key: f"present key {state.layer}",
            state.present_value: f"present value {state.layer}",
        }
    roles[interface.logits] = "logits"
    index = {attention.node: i for i, attention in enumerate(structure.attentions)}
    head, embedding = structure.head, structure.embedding
    beyond = unusual(structure)
    choices = variant.choices(structure)
    parameters = sum(
        int(np.prod(v.shape.numpy())) for v in model.graph.initializers.values() if v.shape is not None
    )
    return facts.GraphFacts(
        file,
        " ".join(part for part in (model.producer_name, model.producer_version) if part),
        {domain or "ai.onnx": version for domain, version in model.opset_imports.items()},
        len(walk.order),
        parameters,
        [port(value, roles) for value in model.graph.inputs if value.name not in model.graph.initializers],
        [port(value, roles) for value in model.graph.outputs],
        [
            facts.CacheFacts(
                state.layer,
                named(state.past_key),
                named(state.past_value),
                None if state.present_key is None else named(state.present_key),
                None if state.present_value is None else named(state.present_value),
            )
            for state in interface.states
        ],
        [_attention(structure, attention) for attention in structure.attentions],
        [facts.LayerFacts([_block(b, index) for b in layer.blocks]) for layer in structure.layers],
        None
        if head is None or head.norm is None or choices.get("norm_placement") == "post"
        else norm_facts(head.norm),
        None if head is None or head.projection is None else place(head.projection.node),
        None if head is None or head.projection is None else named(head.projection.weight),
        None if head is None else head.tied,
        None if embedding is None or embedding.tokens is None else named(embedding.tokens),
        None if embedding is None or embedding.positions is None else named(embedding.positions),
        structure.position_offset,
        variant.sizes(structure),
        choices,
        declared(choices, beyond),
        beyond,
        [facts.MisfitFacts(place(m.node), m.message + _fits_at(structure)) for m in structure.misfits],
        [place(node) for node in structure.random],
        dict(walk.partial.missing),
        foreign_domains(model),
        list(interface.notes),
        {
            "batch": structure.tried.batch,
            "tokens": structure.tried.tokens,
            "past": structure.tried.past if interface.states else 0,
        },
    )


def _fits_at(structure: Structure) -> str:
    """The length at which everything fits, where it is another than those that were tried first."""
    length = structure.setting.tokens
    return "" if structure.setting == structure.tried else f"; everything fits at {length} tokens"


def place(node: ir.Node) -> facts.Place:
    """A node as a diagnosis names it: by its name, or by what it gives where it has none."""
    first = node.outputs[0].name if node.outputs else ""
    operator = node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}.{node.op_type}"
    return facts.Place(node.name or f"→ {first}", operator)


def named(value: ir.Value) -> str:
    """A value's name."""
    return value.name or "?"


def port(value: ir.Value, roles: dict[Any, str]) -> facts.Port:
    """An input or output."""
    shape: list[int | str | None] | None = None
    if value.shape is not None:
        shape = [
            size if isinstance(size, int) else (str(size.value) if size.value else None)
            for size in value.shape
        ]
    return facts.Port(
        named(value), value.dtype.name.lower() if value.dtype else "?", shape, roles.get(value, "")
    )


def norm_facts(norm: Norm) -> facts.NormFacts:
    """A norm."""
    return facts.NormFacts(
        place(norm.node),
        norm.kind,
        None if norm.eps is None else variant.rounded(norm.eps),
        None if norm.gain is None else named(norm.gain),
        None if norm.bias is None else named(norm.bias),
    )


def _mask(seen: Visibility) -> facts.MaskFacts:
    return facts.MaskFacts(seen.kind, seen.offset, seen.past_ignored, seen.padding, seen.fill, seen.example)


def _attention(structure: Structure, attention: Attention) -> facts.AttentionFacts:
    return facts.AttentionFacts(
        place(attention.node),
        attention.kind,
        attention.heads,
        attention.kv_heads,
        attention.d_head,
        attention.d_value,
        attention.grouping,
        None if attention.scale is None else variant.rounded(attention.scale),
        attention.scale_how,
        _scale_place(attention),
        attention.softmax_axis,
        _mask(attention.visibility),
        _maker(attention.masked),
        None if attention.prefill is None else _mask(attention.prefill),
        _operand(structure, attention, attention.q, structure.rope_of(attention, "q")),
        _operand(structure, attention, attention.k, structure.rope_of(attention, "k")),
        _operand(structure, attention, attention.v, None),
        None if attention.output is None else place(attention.output.node),
        list(attention.problems),
    )


def _maker(value: ir.Value | None) -> facts.Place | None:
    """The node that makes a value."""
    node = None if value is None else value.producer()
    return None if node is None else place(node)


def _scale_place(attention: Attention) -> facts.Place:
    """Where a factor is applied, the attention itself where none is."""
    if attention.scale_at:
        return place(attention.scale_at[0])
    for traced in (attention.q, attention.k):
        if traced is not None and traced.scaled_by:
            return place(traced.scaled_by[0])
    return place(attention.node)


def _operand(
    structure: Structure, attention: Attention, traced: Traced | None, rope: Rope | None
) -> facts.OperandFacts | None:
    if traced is None:
        return None
    projection = traced.projection
    return facts.OperandFacts(
        named(traced.source),
        None if projection is None else place(projection.node),
        None if projection is None else named(projection.weight),
        _first_column(attention, traced),
        None if projection is None or projection.bias is None else named(projection.bias),
        None if rope is None else rope.plain(),
        None if traced.norm is None else traced.norm.kind,
        None if traced.past is None else named(traced.past),
        _joined(structure, attention, traced),
        None if traced.join is None else traced.past_first,
        _reads_past(structure, traced),
    )


def _first_column(attention: Attention, traced: Traced) -> int | None:
    """The lowest column of the projection that an operand is made of."""
    columns = {
        id(attention.q): attention.q_columns,
        id(attention.k): attention.k_columns,
        id(attention.v): attention.v_columns,
    }.get(id(traced))
    if columns is None and traced.columns is not None:
        columns = traced.columns
    return None if columns is None else int(columns.min())


def _reads_past(structure: Structure, traced: Traced) -> bool | None:
    """Whether numbers of a past, not only its shape, go into an operand."""
    states = structure.looks.states
    if not states:
        return None
    if traced.past is not None:
        return True
    todo, seen = [traced.operand], {traced.operand}
    while todo:
        node = todo.pop().producer()
        if node is None or node.op_type in ("Shape", "Size"):
            continue
        if find_projection(structure.walk, node.outputs[0]) is not None:
            continue  # what lies before is another layer's
        if any(attribute.type.name in ("GRAPH", "GRAPHS") for attribute in node.attributes.values()):
            return None  # a graph within reads what it likes
        for value in node.inputs:
            if value in states:
                return True
            if value is not None and value not in seen:
                seen.add(value)
                todo.append(value)
    return False


def _joined(structure: Structure, attention: Attention, traced: Traced) -> str | None:
    """The axis along which new keys are joined to the past: the one that grew from tokens to all keys."""
    if traced.join is None:
        return None
    if traced.join is attention.node:
        return "key"
    shape = structure.walk.partial.shape(traced.join.outputs[0])
    axis = traced.join_axis
    if shape is None or axis is None:
        return None
    return "key" if shape[axis] == structure.setting.total else "another"


def _block(block: Block, index: dict[Any, int]) -> facts.BlockFacts:
    matrices = [named(block.branch.weight)]
    network = block.feed_forward
    if network is not None:
        parts = [p for p in (network.first, network.up, network.down) if p is not None]
        matrices = list(dict.fromkeys(named(p.weight) for p in parts))  # gate and up may be one
    return facts.BlockFacts(
        place(block.node),
        block.kind,
        block.source_is,
        None if block.norm is None else norm_facts(block.norm),
        None if block.after is None else norm_facts(block.after),
        None if block.attention is None else index.get(block.attention.node),
        None if network is None else network.kind,
        matrices,
    )
