"""What a model is fed and gives: tokens, masks, positions, past and present, logits.

Names decide, as exporters write them; a `--map` file says it where they do not.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from conformance.onnx.partial import Seen, ghost
from conformance.onnx.reading import Unreadable

if TYPE_CHECKING:
    import onnx_ir as ir

TOKENS = re.compile(r"^(input_?ids|tokens?|token_?ids|ids|input|x|idx)$", re.IGNORECASE)
MASK = re.compile(r"^(attention_?mask|padding_?mask|pad_?mask|mask)$", re.IGNORECASE)
POSITIONS = re.compile(r"^(position_?ids?|positions?|pos)$", re.IGNORECASE)
LOGITS = re.compile(r"^(logits|output|lm_logits|scores)$", re.IGNORECASE)
STATE = re.compile(r"(?P<kind>past|present|cache|updated|new)", re.IGNORECASE)
PREFIX = re.compile(r"^(past|present)_key_values?", re.IGNORECASE)
LAYER = re.compile(r"(\d+)")
KEY = re.compile(r"(^|[._])(key|keys|k)([._]|$)", re.IGNORECASE)
VALUE = re.compile(r"(^|[._])(value|values|v)([._]|$)", re.IGNORECASE)

INTEGERS = ("INT64", "INT32")


@dataclass(frozen=True)
class State:
    """The cache of one layer: where it comes in and where it goes out."""

    layer: int
    past_key: ir.Value
    past_value: ir.Value
    present_key: ir.Value | None
    present_value: ir.Value | None


@dataclass(frozen=True)
class Interface:
    """The inputs and outputs of a model, by what they are for."""

    tokens: ir.Value | None
    attention_mask: ir.Value | None
    positions: ir.Value | None
    logits: ir.Value | None
    states: tuple[State, ...] = ()
    others: tuple[ir.Value, ...] = ()
    notes: tuple[str, ...] = ()
    map: Mapping[str, Any] = field(default_factory=dict)


def find_interface(graph: ir.Graph, names: Mapping[str, Any] | None = None) -> Interface:
    """Which input and output is what. `names` are those of a `--map` file.

    Raises `Unreadable` where `names` has one that the graph has not.
    """
    names = names or {}
    inputs = [value for value in graph.inputs if value.name not in graph.initializers]
    outputs = list(graph.outputs)
    notes: list[str] = []
    states, state_inputs = _states(inputs, outputs, names)
    rest = [value for value in inputs if value not in state_inputs]
    kinds = {v: "" if v.dtype is None else v.dtype.name for v in rest}
    integer = [v for v in rest if kinds[v] in INTEGERS]
    tokens = _named("tokens", names, rest) or _matching(TOKENS, integer)
    mask = _named("attention_mask", names, rest) or _matching(MASK, rest)
    positions = _named("positions", names, rest) or _matching(POSITIONS, integer)
    if tokens is None:
        candidates = [v for v in integer if v not in (mask, positions) and _rank(v) in (2, None)]
        if len(candidates) == 1:
            tokens = candidates[0]
        elif candidates:
            notes.append(f"several inputs could be the tokens: {', '.join(str(v.name) for v in candidates)}")
    logits = _named("logits", names, outputs) or _matching(LOGITS, outputs)
    if logits is None:
        present = [v for state in states for v in (state.present_key, state.present_value)]
        floats = [v for v in outputs if v not in present]
        if len(floats) == 1:
            logits = floats[0]
        elif floats:
            notes.append(f"several outputs could be the logits: {', '.join(str(v.name) for v in floats)}")
    used = {tokens, mask, positions}
    others = tuple(v for v in rest if v not in used)
    return Interface(tokens, mask, positions, logits, states, others, tuple(notes), names)


def _named(role: str, names: Mapping[str, Any], values: Sequence[ir.Value]) -> ir.Value | None:
    name = names.get(role)
    if name is None:
        return None
    for value in values:
        if value.name == name:
            return value
    there = ", ".join(str(value.name) for value in values)
    raise Unreadable(f"--map names '{name}' as the {role}; there are {there}", "correct the map")


def _matching(pattern: re.Pattern[str], values: Sequence[ir.Value]) -> ir.Value | None:
    return next((value for value in values if pattern.match(value.name or "")), None)


def _rank(value: ir.Value) -> int | None:
    return None if value.shape is None else len(value.shape)


def _states(
    inputs: Sequence[ir.Value], outputs: Sequence[ir.Value], names: Mapping[str, Any]
) -> tuple[tuple[State, ...], set[ir.Value]]:
    """Pairs of past and present by layer; keys before values where names do not tell."""
    past = _by_layer(inputs, names.get("past"))
    present = _by_layer(outputs, names.get("present"))
    states = []
    used: set[ir.Value] = set()
    for layer, pair in sorted(past.items()):
        if "key" not in pair or "value" not in pair:
            continue
        out = present.get(layer, {})
        states.append(State(layer, pair["key"], pair["value"], out.get("key"), out.get("value")))
        used |= {pair["key"], pair["value"]}
    return tuple(states), used


def _by_layer(values: Sequence[ir.Value], named: Any) -> dict[int, dict[str, ir.Value]]:
    found: dict[int, dict[str, ir.Value]] = {}
    by_name = {value.name: value for value in values}
    if isinstance(named, Sequence):  # a list of [key, value] pairs, layer by layer
        for layer, pair in enumerate(named):
            for part, name in zip(("key", "value"), pair, strict=True):
                if name not in by_name:
                    raise Unreadable(f"--map names '{name}', which the graph has not", "correct the map")
                found.setdefault(layer, {})[part] = by_name[name]
        return found
    for value in values:
        called = str(value.name or "")
        numbers = LAYER.findall(called)
        if not STATE.search(called) or not numbers or _rank(value) not in (4, None):
            continue
        own = PREFIX.sub("", called)
        kind = "key" if KEY.search(own) else "value" if VALUE.search(own) else None
        if kind is not None:
            found.setdefault(int(numbers[-1]), {}).setdefault(kind, value)
    return found


# -- inputs of chosen sizes -------------------------------------------------------------------------


@dataclass(frozen=True)
class Setting:
    """Sizes at which a graph is looked at, pairwise different so that a size tells its axis."""

    batch: int = 3
    tokens: int = 5
    past: int = 7
    padding: int = 0
    """Tokens of the first sequence, from the left, that the mask hides."""
    first: int = 0
    """Position of the first token, where the model is given positions."""

    @property
    def total(self) -> int:
        """Keys that there are."""
        return self.past + self.tokens


def inputs_of(interface: Interface, setting: Setting) -> dict[ir.Value, Seen | None]:
    """What every input of a graph is, in a setting: tokens by shape, masks and positions by value."""
    made: dict[ir.Value, Seen | None] = {}
    past = setting.past if interface.states else 0
    batch, length = setting.batch, setting.tokens
    if interface.tokens is not None:
        made[interface.tokens] = ghost((batch, length), np.int64)
    if interface.attention_mask is not None:
        mask = np.ones((batch, past + length), np.int64)
        mask[0, : setting.padding] = 0
        made[interface.attention_mask] = Seen(mask.astype(_dtype(interface.attention_mask)), known=True)
    if interface.positions is not None:
        positions = np.broadcast_to(past + setting.first + np.arange(length), (batch, length))
        one = interface.positions.shape is not None and len(interface.positions.shape) == 1
        array = positions[0] if one else positions
        made[interface.positions] = Seen(array.astype(_dtype(interface.positions)), known=True)
    for state in interface.states:
        for value in (state.past_key, state.past_value):
            declared = _declared(value)
            shape = [batch, declared[1] or 1, past, declared[3] or 1] if len(declared) == 4 else None
            made[value] = None if shape is None else ghost(shape)
    for value in interface.others:
        declared = _declared(value)
        made[value] = ghost([size or 1 for size in declared]) if all(declared) and declared else None
    return made


def _declared(value: ir.Value) -> list[int | None]:
    """The sizes that an input declares; None where they are free."""
    if value.shape is None:
        return []
    return [size if isinstance(size, int) else None for size in value.shape]


def _dtype(value: ir.Value) -> Any:
    from conformance.onnx.operators import DTYPES

    return DTYPES.get(int(value.dtype), np.int64) if value.dtype is not None else np.int64
