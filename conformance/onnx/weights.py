"""The weights of a graph under the document's names, in `x @ W` orientation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from conformance.onnx.attention import MERGED, SPLIT, Attention
from conformance.onnx.norms import Norm
from conformance.onnx.operators import Array
from conformance.onnx.projections import Projection
from conformance.onnx.stream import Block
from conformance.onnx.structure import Structure
from conformance.onnx.variant import rows_before
from conformance.onnx.walk import Walk

if TYPE_CHECKING:
    import onnx_ir as ir


FLOATS = frozenset({"FLOAT", "FLOAT16", "BFLOAT16", "DOUBLE"})
"""Dtypes in which a weight is what it says."""


class NotRead(Exception):
    """A weight that could not be read; says which and why."""


@dataclass(frozen=True)
class Weight:
    """One of the document's parameters as part of an initializer.

    It is the initializer, transposed if `transposed`, of which `index` are taken along `axis` (None: all).
    """

    name: str
    initializer: ir.Value
    transposed: bool = False
    index: Array | None = None
    axis: int = 0

    def read(self, raw: Array) -> Array:
        """The parameter from its initializer's numbers."""
        array = raw.T if self.transposed else raw
        if self.index is None:
            return np.asarray(array)
        if array.ndim != 2:
            array = array.reshape(-1)
        return np.take(array, self.index, axis=self.axis if array.ndim == 2 else 0)


def find_weights(structure: Structure) -> tuple[list[Weight], list[str]]:
    """All parameters that were found, and what was not."""
    found: list[Weight] = []
    missing: list[str] = []
    for part in _parts(structure):
        try:
            found += part()
        except NotRead as error:
            missing.append(str(error))
    return found, missing


def _parts(structure: Structure) -> Iterator[Callable[[], list[Weight]]]:
    """What can be read, or not, on its own: the ends of the model, and each sum of its layers."""
    yield partial(_ends, structure)
    for i, layer in enumerate(structure.layers):
        for block in layer.blocks:
            yield partial(_of_block, structure, i, block)


def _of_block(structure: Structure, layer: int, block: Block) -> list[Weight]:
    return list(_block(structure, layer, block))


def _ends(structure: Structure) -> list[Weight]:
    """Embedding, positions, final norm, vocabulary projection."""
    found = []
    embedding, head = structure.embedding, structure.head
    if embedding is None or embedding.tokens is None:
        raise NotRead("the embedding could not be read")
    found.append(Weight("embed", embedding.tokens))
    if embedding.positions is not None:
        before = rows_before(structure)
        table = structure.walk.partial.shape(embedding.positions)
        rows = np.arange(before, table[0]) if before and table is not None else None
        found.append(Weight("position_embed", embedding.positions, index=rows))
    if head is None or head.projection is None:
        raise NotRead("the vocabulary projection could not be read")
    if head.norm is not None and not any(
        b.after is head.norm for layer in structure.layers for b in layer.blocks
    ):
        found += _norm(structure.walk, "final_norm", head.norm)
    if head.projection.bias is not None:
        raise NotRead("a bias of the vocabulary projection, which the document has not")
    found.append(_matrix(structure.walk, "lm_head", head.projection))
    return found


def _block(structure: Structure, layer: int, block: Block) -> Iterator[Weight]:
    prefix = f"layers.{layer}."
    attention = block.attention
    name = "norm1" if attention is not None else "norm2"
    norm = block.after or block.norm
    if norm is not None:
        yield from _norm(structure.walk, prefix + name, norm)
    if attention is not None:
        yield from _attention(structure, prefix + "attention.", block, attention)
        return
    network = block.feed_forward
    if network is None:
        raise NotRead(f"the network of layer {layer} could not be read")
    walk = structure.walk
    down_bias = network.down.bias or _skip_bias(block)
    if network.up is not None:
        gate, up = (None, None) if network.halves is None else (half.columns for half in network.halves)
        for short, projection, columns in (
            ("w_gate", network.first, gate), ("w_up", network.up, up), ("w_down", network.down, None),
        ):  # fmt: skip
            if projection.bias is not None or (short == "w_down" and down_bias is not None):
                raise NotRead(f"a bias in the gated network of layer {layer}, which the document has not")
            yield _matrix(walk, f"{prefix}ffn.{short}", projection, columns, axis=1)
        return
    wide = [walk.partial.shape(value) for value in (network.first.output, network.down.input)]
    if network.kind == "unknown" and len({None if shape is None else shape[-1] for shape in wide}) > 1:
        raise NotRead(f"the network of layer {layer}, whose matrices do not fit each other")
    yield _matrix(walk, f"{prefix}ffn.w_1", network.first)
    yield _matrix(walk, f"{prefix}ffn.w_2", network.down)
    if network.bias is not None:
        yield _vector(walk, f"{prefix}ffn.b_1", network.bias)
    if down_bias is not None:
        yield _vector(walk, f"{prefix}ffn.b_2", down_bias)


def _attention(structure: Structure, prefix: str, block: Block, attention: Attention) -> Iterator[Weight]:
    walk = structure.walk
    columns = {"q": attention.q_columns, "k": attention.k_columns, "v": attention.v_columns}
    traced = {"q": attention.q, "k": attention.k, "v": attention.v}
    # Heads that are plainly split wrong: columns as they stand, and let the numbers tell.
    as_they_stand = SPLIT in attention.problems
    for short, one in traced.items():
        projection = None if one is None else one.projection
        if projection is None:
            raise NotRead(f"{prefix}w_{short} could not be read")
        index = columns[short]
        if index is not None and short != "q":
            index = distinct_heads(index)
        if index is None and not as_they_stand:
            raise NotRead(f"{prefix}w_{short} could not be read")
        flat = None if index is None else index.reshape(-1)
        yield _matrix(walk, f"{prefix}w_{short}", projection, flat, axis=1)
        if projection.bias is not None:
            whole = columns[short]
            if projection.bias_begin is not None and flat is not None and whole is not None:
                if flat.size != whole.size:
                    raise NotRead(f"{prefix}b_{short}, which differs between heads that share a key")
                flat = projection.bias_begin + np.arange(flat.size)
            yield _vector(walk, f"{prefix}b_{short}", projection.bias, flat)
    for short in ("q", "k"):
        one = traced[short]
        if one is not None and one.norm is not None:
            yield from _norm(walk, f"{prefix}{short}_norm", one.norm)
    if attention.output is None or (
        attention.o_rows is None and MERGED not in attention.problems and not as_they_stand
    ):
        raise NotRead(f"{prefix}w_o could not be read")
    rows = None if attention.o_rows is None else np.argsort(attention.o_rows)
    yield _matrix(walk, prefix + "w_o", attention.output, rows, axis=0)
    bias = attention.output.bias or _skip_bias(block)
    if bias is not None:
        yield _vector(walk, prefix + "b_o", bias)


def distinct_heads(columns: Array) -> Array:
    """Key or value heads once each, in the order in which query heads first read them."""
    _, first = np.unique(columns, axis=0, return_index=True)
    return np.asarray(columns[np.sort(first)])


def _skip_bias(block: Block) -> ir.Value | None:
    """The bias that a fused sum and norm adds."""
    node = block.node
    if not node.op_type.startswith("Skip"):
        return None
    place = 3 if "Simplified" in node.op_type else 4
    return node.inputs[place] if len(node.inputs) > place else None


def _norm(walk: Walk, name: str, norm: Norm) -> list[Weight]:
    if norm.gain is None:
        raise NotRead(f"{name}.weight could not be read")
    found = [_vector(walk, f"{name}.weight", norm.gain)]
    if norm.bias is not None:
        found.append(_vector(walk, f"{name}.bias", norm.bias))
    return found


def _matrix(
    walk: Walk, name: str, projection: Projection, index: Array | None = None, axis: int = 0
) -> Weight:
    initializer, turned = origin(walk, projection.weight, name)
    return Weight(name, initializer, turned != projection.transposed, index, axis)


def _vector(walk: Walk, name: str, value: ir.Value, index: Array | None = None) -> Weight:
    initializer, _ = origin(walk, value, name)
    return Weight(name, initializer, False, index, 0)


def origin(walk: Walk, value: ir.Value, name: str) -> tuple[ir.Value, bool]:
    """The initializer behind transposes and casts, and whether it is turned. Raises `NotRead`."""
    turned = False
    while (node := value.producer()) is not None:
        if node.op_type == "Transpose":
            turned = not turned
        elif node.op_type not in ("Cast", "Identity", "Reshape", "Unsqueeze", "Squeeze"):
            raise NotRead(f"{name}, which {node.op_type} makes")
        first = node.inputs[0]
        if first is None:
            raise NotRead(f"{name} could not be read")
        value = first
    if value.const_value is None:
        raise NotRead(f"{name} could not be read")
    if value.const_value.dtype.name not in FLOATS:
        raise NotRead(f"{name}, which is quantised")
    return value, turned
