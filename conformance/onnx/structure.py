"""A whole model read off its graph: the stream, its layers, and what surrounds them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from conformance.onnx.attention import Attention, find_decomposed
from conformance.onnx.ends import (
    Embedding,
    Head,
    before_network,
    read_embedding,
    read_head,
    token_tables,
    walk_fixed,
)
from conformance.onnx.fused_attention import find_fused
from conformance.onnx.interface import Interface, Setting, find_interface, inputs_of
from conformance.onnx.norms import Norm, find_norms
from conformance.onnx.operators import Array
from conformance.onnx.partial import Misfit, Partial, attributes_of, evaluate
from conformance.onnx.rope import Rope, measure
from conformance.onnx.stream import Block, read_stream
from conformance.onnx.visibility import PADDING
from conformance.onnx.walk import Looks, Walk

if TYPE_CHECKING:
    import onnx_ir as ir

PRIMES = (5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41)
MOST_LENGTHS = 12
"""Lengths that are tried where one seems to be built in."""
FEW, SMALL = 8, 64
"""Of constants that can be shapes: how many numbers they have at most, and how large those are."""
RANDOM = frozenset(
    {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial"}
)


@dataclass(frozen=True)
class Layer:
    """One layer: its sums in order. Attention first, then the feed-forward network, where it is whole."""

    blocks: tuple[Block, ...]

    @property
    def attention(self) -> Block | None:
        """The sum with the attention."""
        return next((b for b in self.blocks if b.attention is not None), None)

    @property
    def feed_forward(self) -> Block | None:
        """The sum with the network."""
        return next((b for b in self.blocks if b.attention is None), None)


@dataclass(frozen=True)
class Structure:
    """All that was read."""

    model: ir.Model
    interface: Interface
    setting: Setting
    looks: Looks
    norms: Mapping[ir.Value, Norm]
    attentions: tuple[Attention, ...]
    ropes: Mapping[ir.Value, Rope]
    """By what comes out of the rotation."""
    head: Head | None
    layers: tuple[Layer, ...]
    begin: ir.Value | None
    embedding: Embedding | None
    position_offset: int | None
    positions_of_tokens: bool
    """Whether rows are looked up in the position table by numbers that depend on the tokens themselves."""
    misfits: tuple[Misfit, ...]
    tried: Setting
    """The sizes at which those do not fit; `setting` has sizes at which they do, where there are any."""
    random: tuple[ir.Node, ...]

    @property
    def walk(self) -> Walk:
        """The graph at the main setting."""
        return self.looks.main

    def rope_of(self, attention: Attention, which: str) -> Rope | None:
        """The rotation of q or k, None where there is none."""
        traced = attention.q if which == "q" else attention.k
        if traced is None or traced.rotation is None:
            return None
        return self.ropes.get(traced.rotation.output)


def read_structure(model: ir.Model, names: Mapping[str, Any] | None = None) -> Structure:
    """What a model's graph does. Raises `Unreadable` for names in `names` that it has not."""
    graph = model.graph
    interface = find_interface(graph, names)
    tried = setting = choose(graph, interface)
    states = frozenset(v for s in interface.states for v in (s.past_key, s.past_value))
    main = _walk(graph, interface, setting)
    misfits = tuple(main.partial.misfits)
    if misfits:
        setting, main = _fitting(graph, interface, setting, main)
    padded = None
    if interface.attention_mask is not None:
        padded = _walk(graph, interface, replace(setting, padding=PADDING))
    prefill = _walk(graph, interface, replace(setting, past=0)) if interface.states else None
    looks = Looks(main, padded, prefill, setting.batch, states)
    norms = find_norms(main)
    attentions = sorted(
        [*find_decomposed(looks, norms), *find_fused(looks, norms)], key=lambda a: main.order[a.node]
    )
    positions = (setting.past if interface.states else 0) + np.arange(setting.tokens)
    ropes = _ropes(main, attentions, positions)
    head: Head | None = None
    layers: tuple[Layer, ...] = ()
    begin: ir.Value | None = None
    embedding: Embedding | None = None
    tables = token_tables(main, interface.tokens)
    if interface.logits is not None:
        head = read_head(main, interface.logits, norms, tables)
        if head.start is not None:
            blocks, begin = read_stream(main, head.start, norms, attentions, head.norm)
            inner = head if blocks else before_network(main, head, norms)
            if inner is not head and inner.start is not None:
                head = inner
                blocks, begin = read_stream(main, inner.start, norms, attentions, inner.norm)
            layers = _layers(_with_norms(_with_last_norm(blocks, head.norm), norms))
            embedding = read_embedding(main, begin, norms, tables)
    return Structure(
        model,
        interface,
        setting,
        looks,
        norms,
        tuple(attentions),
        ropes,
        head,
        layers,
        begin,
        embedding,
        *_position_rows(main, embedding, positions),
        misfits,
        tried,
        tuple(_random(graph)),
    )


def _walk(graph: ir.Graph, interface: Interface, setting: Setting) -> Walk:
    partial: Partial = evaluate(graph, inputs_of(interface, setting))
    return Walk.of(graph, partial)


def _fitting(graph: ir.Graph, interface: Interface, setting: Setting, walk: Walk) -> tuple[Setting, Walk]:
    """Sizes at which a graph that has one built in still fits: it stands in a constant; else as it was."""
    lengths = sorted(_constants(graph))[:MOST_LENGTHS]
    for length in lengths:
        one = replace(setting, tokens=length)
        found = _walk(graph, interface, one)
        if not found.partial.misfits:
            return one, found
    return setting, walk


def choose(graph: ir.Graph, interface: Interface) -> Setting:
    """Sizes that no weight has, so that a size tells its axis; those that the file fixes stay.

    Nor any constant of integers: a length that was exported is in one, and would fit where no other does.
    """
    taken = _constants(graph)
    for value in graph.initializers.values():
        if value.shape is not None:
            taken |= {size for size in value.shape if isinstance(size, int)}
    for state in interface.states:
        if state.past_key.shape is not None:
            taken |= {size for size in state.past_key.shape if isinstance(size, int)}
    free = [p for p in PRIMES if p not in taken]
    small = [3, *free] if 3 not in taken else free
    chosen: list[int] = []
    for prime in small:
        if len(chosen) < 3 and prime not in chosen and prime + sum(chosen[-1:]) not in taken:
            chosen.append(prime)
    while len(chosen) < 3:
        chosen.append(PRIMES[len(chosen)])
    batch, tokens, past = chosen
    fixed: list[int | None] = [None, None]
    if (
        interface.tokens is not None
        and interface.tokens.shape is not None
        and len(interface.tokens.shape) == 2
    ):
        fixed = [size if isinstance(size, int) else None for size in interface.tokens.shape]
    if interface.states:
        shape = interface.states[0].past_key.shape
        if shape is not None and len(shape) == 4 and isinstance(shape[2], int):
            past = shape[2]
    return Setting(fixed[0] or batch, fixed[1] or tokens, past)


def _constants(graph: ir.Graph) -> set[int]:
    """Small integers that stand in a graph, wherever."""
    found: set[int] = set()
    tensors = [value.const_value for value in graph.initializers.values()]
    for node in graph:
        if node.op_type == "Constant":
            tensors += [a.as_tensor() for a in node.attributes.values() if a.name == "value"]
            for attribute in node.attributes.values():
                if attribute.name in ("value_int", "value_ints"):
                    found |= set(np.asarray(attribute.value).reshape(-1).tolist())
    for tensor in tensors:
        if tensor is not None and tensor.dtype.name in ("INT64", "INT32") and tensor.size <= FEW:
            found |= {int(number) for number in np.asarray(tensor.numpy()).reshape(-1)}
    return {number for number in found if 3 <= number <= SMALL}


def _ropes(walk: Walk, attentions: Sequence[Attention], positions: Array) -> dict[ir.Value, Rope]:
    found: dict[ir.Value, Rope] = {}
    for attention in attentions:
        for traced in (attention.q, attention.k):
            if traced is not None and traced.rotation is not None:
                found[traced.rotation.output] = measure(walk, traced.rotation, positions)
    return found


def _with_last_norm(blocks: Sequence[Block], norm: Norm | None) -> Sequence[Block]:
    """Where sums are normed behind, the norm before the vocabulary projection is the last sum's."""
    behind = sum(block.after is not None for block in blocks)
    if norm is None or not blocks or blocks[-1].after is not None or 2 * behind < len(blocks):
        return blocks
    return [*blocks[:-1], replace(blocks[-1], after=norm)]


def _with_norms(blocks: Sequence[Block], norms: Mapping[ir.Value, Norm]) -> Sequence[Block]:
    """Where sums take the stream, a sum that takes a norm's result reads it through that norm like the others.

    Otherwise that norm would seem to stand behind the sum before. Of several layers only the first may do so without
    fault: then it is the embedding that is normed, and the first attention reads it as it is (ModernBERT).
    """
    taken = [b.norm is None and b.source in norms and b.reads is b.source for b in blocks]
    several = sum(block.attention is not None for block in blocks) > 1
    normed = sum(block.norm is not None for block in blocks)
    # All attentions alone, or all networks: no model has one with a norm behind the other's sum and a norm of its own.
    of_kind = (
        several
        and 2 * normed == len(blocks)
        and {(b.kind, t) for b, t in zip(blocks, taken, strict=True)}
        in (
            {("attention", True), ("feed_forward", False)},
            {("attention", False), ("feed_forward", True)},
        )
    )
    if 2 * normed <= len(blocks) and not of_kind:
        return blocks
    embedded = several and taken[0] and not any(taken[1:])
    corrected: list[Block] = []
    for i, block in enumerate(blocks):
        own = norms.get(block.source)
        if own is None or not taken[i] or embedded:
            corrected.append(block)
            continue
        if corrected and corrected[-1].after is own:
            corrected[-1] = replace(corrected[-1], after=None)
        corrected.append(replace(block, norm=own, reads=own.total or own.input))
    return corrected


def _layers(blocks: Sequence[Block]) -> tuple[Layer, ...]:
    """Sums grouped into layers: a new one begins with each attention that follows a network.

    A branch that could not be read may be either, whichever its layer lacks.
    """
    layers: list[list[Block]] = []
    for block in blocks:
        last = layers[-1] if layers else []
        attends, attended = block.attention is not None, bool(last) and last[-1].attention is not None
        open_ = len(last) == 1 and last[-1].kind == "unknown" and not attends
        if open_ or (attended and (attends or block.kind in ("feed_forward", "unknown"))):
            last.append(block)
        else:
            layers.append([block])
    return tuple(Layer(tuple(layer)) for layer in layers)


def _position_rows(walk: Walk, embedding: Embedding | None, positions: Array) -> tuple[int | None, bool]:
    """By how much the rows of a learned table differ from the tokens' positions, and whether tokens make them.

    A difference is None where there is no one number.
    """
    if embedding is None or embedding.positions is None:
        return None, False
    of_tokens = False
    for node in walk.graph:
        table = node.inputs[0] if node.op_type == "Gather" and node.inputs else None
        if table is None or table not in walk.fixed or walk_fixed(walk, table) is not embedding.positions:
            continue
        rows = walk.partial.known(node.inputs[1])
        if rows is None:
            of_tokens = True
        elif rows.size and rows.shape[-1] == len(positions):
            difference = rows.reshape(-1, len(positions)) - positions
            if (difference == difference.reshape(-1)[0]).all():
                return int(difference.reshape(-1)[0]), False
    return None, of_tokens


def _random(graph: ir.Graph) -> list[ir.Node]:
    """Nodes that draw numbers: dropout in training mode, and what is random by its name."""
    found = []
    for node in graph:
        if node.op_type in RANDOM:
            found.append(node)
        elif node.op_type == "Dropout":
            training = node.inputs[2] if len(node.inputs) > 2 else None
            constant = None if training is None else training.const_value
            on = constant is not None and bool(np.asarray(constant.numpy()).reshape(-1)[0])
            if on or attributes_of(node).get("training_mode"):
                found.append(node)
    return found
