"""How exporters name what goes into a model and comes out, by the names that the program has for it."""

from __future__ import annotations

INPUTS = {"tokens": "input_ids", "attention_mask": "attention_mask", "positions": "position_ids"}
KINDS = {"past_keys": "key", "past_values": "value"}
PAST = "past"
KEPT = "kept"
"""The length of a cache that is not what came before: of some mistakes."""


def input_name(name: str) -> str:
    """What an input of the program is called in a graph."""
    return INPUTS.get(name, name)


def past_name(layer: int, state: str) -> str:
    """The input that brings what a layer remembers."""
    return f"past_key_values.{layer}.{KINDS.get(state, state)}"


def present_name(layer: int, state: str) -> str:
    """The output that hands it on."""
    return f"present.{layer}.{KINDS.get(state, state)}"
