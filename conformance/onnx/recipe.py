"""How to run a graph as a model of the document: names, weights and taps, as data for the adapter.

The adapter (`adapters/onnx_model.py`) runs beside onnxruntime and knows nothing of graphs; what it
needs is worked out here, in the process that reads the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from conformance.onnx import variant
from conformance.onnx.conditions import UNREAD, reasons, rounded, rows
from conformance.onnx.declaring import FAMILIAR, declared
from conformance.onnx.describe import named, place
from conformance.onnx.operators import Array
from conformance.onnx.own_words import own_words, values_by_name, weights_by_name
from conformance.onnx.partial import attributes_of
from conformance.onnx.reading import OUTER, Unreadable
from conformance.onnx.structure import Structure
from conformance.onnx.taps import find_taps
from conformance.onnx.weights import find_weights
from conformance.plan.own import MANY

if TYPE_CHECKING:
    import onnx_ir as ir

FARTHEST = 40
"""Nodes between the stream's first value and the table of tokens."""


def recipe(structure: Structure, folder: Path, names: Mapping[str, Any], many: int = MANY) -> dict[str, Any]:
    """The recipe; raw weights are written to `folder`, one array file each. From `many` numbers on it is large.

    Raises `Unreadable` where tokens or logits are not recognised.
    """
    interface = structure.interface
    check_ends(structure)
    if interface.others:
        listed = ", ".join(named(value) for value in interface.others)
        raise Unreadable(
            f"it has inputs that are not known: {listed}",
            "name those that are tokens, attention_mask, positions or past in a file and pass it with --map",
        )
    assert interface.tokens is not None
    assert interface.logits is not None
    said = own_words(structure.model)
    names = names if said is None else {"variant": said.variant, **names}
    weights, missing = find_weights(structure)
    raw = _Raw(folder)
    parameters: dict[str, Any] = {}
    for weight in weights:
        index = None if weight.index is None else [int(i) for i in weight.index]
        parameters[weight.name] = [
            {
                "initializer": named(weight.initializer),
                "file": raw.file(weight.initializer),
                "transposed": weight.transposed,
                "index": index,
                "axis": weight.axis,
            }
        ]
    tied = _tied(structure, parameters, raw)
    sizes: Mapping[str, int | None] = variant.sizes(structure)
    missing = [*reasons(structure, names), *missing]
    chosen = _variant(structure, tied, names)
    if said is not None and said.named:
        parameters = {name: [_whole(value, raw)] for name, value in weights_by_name(structure.model).items()}
        sizes, missing = said.sizes, []
    outer = structure.model.meta[OUTER]
    taps = {
        tap.name: {
            "value": named(tap.value),
            "order": None if tap.order is None else list(tap.order),
            "flat": tap.flat,
            **_place(tap.node or tap.value.producer(), tap.value),
        }
        for tap in find_taps(structure)
        if tap.value.name in outer
    }
    if said is not None and said.named:
        taps = {
            name: {"value": name, "order": None, "flat": "", **_place(value.producer(), value)}
            for name, value in values_by_name(structure.model).items()
        }
    return {
        "inputs": {
            "tokens": _input(interface.tokens),
            "attention_mask": None if interface.attention_mask is None else _input(interface.attention_mask),
            "positions": None if interface.positions is None else _input(interface.positions),
            "past": [[_state(s.past_key), _state(s.past_value)] for s in interface.states],
        },
        "outputs": {
            "logits": named(interface.logits),
            "present": [
                [named(s.present_key), named(s.present_value)]
                for s in interface.states
                if s.present_key is not None and s.present_value is not None
            ],
        },
        "parameters": parameters,
        "taps": taps,
        "missing": missing,
        "variant": chosen,
        "sizes": sizes,
        "dtype": _dtype(structure),
        "counts_padding": _counts_padding(structure),
        "rows": rows(structure),
        "rounded": rounded(structure),
        "padded_behind": interface.attention_mask is not None
        and any(attention.counts_padding for attention in structure.attentions),
        "large": raw.numbers > many,
    }


def _whole(value: ir.Value, raw: _Raw) -> dict[str, Any]:
    """A parameter that is an initializer as it stands."""
    return {
        "initializer": named(value),
        "file": raw.file(value),
        "transposed": False,
        "index": None,
        "axis": 0,
    }


def check_ends(structure: Structure) -> None:
    """Refuse a graph whose tokens or logits are not recognised; says what was found. Raises `Unreadable`."""
    interface = structure.interface
    for role, value, there in (
        ("tokens", interface.tokens, structure.model.graph.inputs),
        ("logits", interface.logits, structure.model.graph.outputs),
    ):
        if value is None:
            what = "inputs" if role == "tokens" else "outputs"
            listed = ", ".join(named(v) for v in there[:12])
            note = next(
                (n for n in interface.notes if role in n), f"none of its {what} is known as the {role}"
            )
            raise Unreadable(
                f"{note}; its {what} are {listed}", f"write `{role}: NAME` into a file and pass it with --map"
            )
    assert interface.logits is not None
    shape = structure.walk.partial.shape(interface.logits)
    one_each = shape is not None and len(shape) == 2 and shape[0] == structure.setting.batch
    if shape is not None and one_each and shape[1] != variant.vocabulary(structure):
        raise Unreadable(
            f"its output {named(interface.logits)} is [{shape[0]}, {shape[1]}] for tokens "
            f"[{structure.setting.batch}, {structure.setting.tokens}]: {shape[1]} numbers for a sequence, none for "
            "a token, as a classifier gives",
            "what is graded are the scores of the next token, [batch, length, vocabulary]; "
            "`conformance inspect` reads it all the same",
        )


IN_PLACE = 1 << 16
"""Bytes of a weight from which on it is read where it stands, and not copied."""
PLAIN = frozenset({"FLOAT", "FLOAT16", "DOUBLE"})


class _Raw:
    """Initializers written out, each once; large ones stay where they are."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._written: dict[ir.Value, tuple[str | dict[str, Any], Array]] = {}

    def file(self, value: ir.Value) -> str | dict[str, Any]:
        """The file that holds an initializer: a name in the folder, or where its bytes are."""
        return self._entry(value)[0]

    @property
    def numbers(self) -> int:
        """How many numbers all of them hold."""
        return sum(array.size for _, array in self._written.values())

    def array(self, value: ir.Value) -> Array:
        """Its numbers."""
        return self._entry(value)[1]

    def _entry(self, value: ir.Value) -> tuple[str | dict[str, Any], Array]:
        if value not in self._written:
            assert value.const_value is not None
            array = np.asarray(value.const_value.numpy())
            there = _in_place(value.const_value)
            if there is not None:
                self._written[value] = there, array
                return self._written[value]
            if array.dtype.kind not in "fiub" or array.dtype.itemsize > 8:
                array = array.astype(np.float32)  # bfloat16
            name = f"{len(self._written)}.npy"
            np.save(self._folder / name, array, allow_pickle=False)
            self._written[value] = name, array
        return self._written[value]


def _in_place(tensor: ir.TensorProtocol) -> dict[str, Any] | None:
    """Where the bytes of a large weight stand; None where it is written out."""
    import onnx_ir as ir

    if not isinstance(tensor, ir.ExternalTensor) or tensor.nbytes < IN_PLACE:
        return None
    if tensor.dtype.name not in PLAIN:
        return None
    return {
        "path": str(tensor.path),
        "offset": tensor.offset or 0,
        "dtype": tensor.dtype.numpy().newbyteorder("<").str,
        "shape": [int(size) for size in tensor.shape.numpy()],
    }


def _tied(structure: Structure, parameters: dict[str, Any], raw: _Raw) -> bool | None:
    """Whether the vocabulary projection is the embedding: one tensor, or two with the same numbers."""
    head, embedding = structure.head, structure.embedding
    entry = parameters.get("lm_head")
    if entry is None or head is None or embedding is None or embedding.tokens is None:
        return None
    table = raw.array(embedding.tokens)
    if not head.tied:
        from conformance.onnx.weights import origin

        assert head.projection is not None
        initializer, _ = origin(structure.walk, head.projection.weight, "lm_head")
        own = raw.array(initializer)
        own = own.T if entry[0]["transposed"] else own
        if own.shape != table.shape[::-1] or not np.array_equal(own, table.T):
            return False
    # Whoever changes the embedding changes both; the projection stands as [features, vocabulary].
    entry[0]["transposed"] = not entry[0]["transposed"]
    parameters["embed"] += [entry[0]] if not head.tied else []
    del parameters["lm_head"]
    return True


def _place(node: ir.Node | None, value: ir.Value) -> dict[str, str]:
    if node is None:
        return {"node": named(value), "op_type": "input"}
    at = place(node)
    return {"node": at.node, "op_type": at.op_type}


def _input(value: ir.Value) -> dict[str, Any]:
    return {
        "name": named(value),
        "dtype": value.dtype.name.lower() if value.dtype is not None else "int64",
        "rank": None if value.shape is None else len(value.shape),
    }


def _state(value: ir.Value) -> dict[str, Any]:
    """A past: its axes are batch, head, position, feature."""
    shape = [] if value.shape is None else list(value.shape)
    sizes = [size if isinstance(size, int) else None for size in shape]
    return {
        **_input(value),
        "heads": sizes[1] if len(sizes) == 4 else None,
        "width": sizes[3] if len(sizes) == 4 else None,
    }


def _variant(structure: Structure, tied: bool | None, names: Mapping[str, Any]) -> Any:
    """The variant to grade: what was read, a language model being causal unless the map says otherwise."""
    given = names.get("variant")
    if isinstance(given, str):
        return given
    choices = _known(structure, tied)
    sizes = variant.sizes(structure)
    # Of a graph that was read in parts its behaviour is graded, by whatever variant: nothing else is compared.
    made = declared({**UNREAD, **{k: v for k, v in choices.items() if v is not None}}, [])
    assert made is not None
    fields: dict[str, Any] = {"base": made} if isinstance(made, str) else dict(made)
    grouped = sizes["n_heads"] != sizes["n_kv_heads"]
    if grouped != (fields["base"] == "llama"):
        fields["grouped_heads"] = grouped
    fields |= dict(given or {})
    return fields if len(fields) > 1 else fields["base"]


def _known(structure: Structure, tied: bool | None) -> dict[str, Any]:
    """The choices that were read, those of most layers where they differ."""
    choices = variant.choices(structure)
    kinds = [
        b.feed_forward.kind for layer in structure.layers for b in layer.blocks if b.feed_forward is not None
    ]
    if choices.get("ffn") not in FAMILIAR:
        choices.pop("ffn", None)
    familiar = [kind for kind in kinds if kind in FAMILIAR]
    if familiar:
        choices["ffn"] = variant.agreed(familiar)
    choices["causal"] = not variant.reads_both_ways(structure)
    if tied is not None:
        choices["tie_embeddings"] = tied
    if choices.get("position") == "rope":
        layouts = [r.layout for r in structure.ropes.values() if r.layout is not None]
        choices.setdefault("rope_layout", variant.agreed(layouts) or "half")
    return choices


def _dtype(structure: Structure) -> str:
    """The dtype that the graph computes in: that in which its stream begins, whatever its weights are stored in."""
    value = None if structure.embedding is None else structure.embedding.value
    code = ""
    for _ in range(FARTHEST):
        if value is None:
            break
        if value.const_value is not None:
            code = value.const_value.dtype.name
            break
        node = value.producer()
        if node is None:
            break
        if node.op_type == "Cast":
            code = ir_dtype(int(attributes_of(node)["to"]))
            break
        carried = structure.walk.carried(node)
        value = node.inputs[0] if node.op_type == "Gather" or not carried else carried[0]
        if node.op_type == "EmbedLayerNormalization":
            value = node.inputs[2]
    return {"FLOAT16": "float16", "BFLOAT16": "bfloat16", "DOUBLE": "float64"}.get(code, "float32")


def ir_dtype(code: int) -> str:
    """The name of an ONNX dtype."""
    import onnx_ir as ir

    return str(ir.DataType(code).name)


def _counts_padding(structure: Structure) -> bool:
    """Whether learned positions count padding as tokens: without positions from outside, some exporters do."""
    embedding = structure.embedding
    if structure.interface.positions is not None or embedding is None or embedding.positions is None:
        return False
    padded = structure.looks.padded
    if padded is None:
        return False
    for node in structure.walk.graph:
        if node.op_type != "Gather" or len(node.inputs) < 2 or node.inputs[0] not in structure.walk.fixed:
            continue
        plain, hidden = (walk.partial.known(node.inputs[1]) for walk in (structure.walk, padded))
        if plain is not None and hidden is not None and not np.array_equal(plain, hidden):
            return False
    return True
