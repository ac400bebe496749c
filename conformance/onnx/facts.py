"""What was read of a graph, as plain data: what `inspect` prints and `graph` claims are judged on.

Every field may be missing (None): unknown is an answer, a guess is none.
"""

from __future__ import annotations

from typing import Any

import msgspec


class Facts(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=False):
    """Base of all: immutable, and strict when it comes back from the process that read the file."""


class Place(Facts, frozen=True):
    """A node: its name and operator, as a diagnosis names it."""

    node: str
    op_type: str


class Port(Facts, frozen=True):
    """An input or output with its sizes; a name is a size that is free."""

    name: str
    dtype: str
    shape: list[int | str | None] | None
    role: str


class CacheFacts(Facts, frozen=True):
    """The cache of one layer."""

    layer: int
    past_key: str
    past_value: str
    present_key: str | None
    present_value: str | None


class OperandFacts(Facts, frozen=True):
    """Where q, k or v of an attention comes from."""

    source: str
    """What the projection reads; or the value that could not be followed any further."""
    projection: Place | None = None
    weight: str | None = None
    first_column: int | None = None
    """Of a matrix that several share: where this operand's part begins."""
    bias: str | None = None
    rope: dict[str, Any] | None = None
    norm: str | None = None
    past: str | None = None
    joined_along: str | None = None
    """Of keys and values with a past: the axis along which new ones are joined; key is right."""
    past_first: bool | None = None
    reads_past: bool | None = None
    """Whether any number of a past can reach them; None where the model has no caches."""


class MaskFacts(Facts, frozen=True):
    """What a mask hides; see `visibility.Visibility`."""

    kind: str
    offset: int = 0
    past_ignored: bool = False
    padding: bool | None = None
    fill: float | None = None
    example: str = ""


class AttentionFacts(Facts, frozen=True):
    """One attention."""

    at: Place
    kind: str
    heads: int | None
    kv_heads: int | None
    d_head: int | None
    d_value: int | None
    grouping: str | None
    scale: float | None
    scale_how: str
    scale_at: Place
    softmax_axis: str | None
    mask: MaskFacts
    mask_at: Place | None
    mask_without_past: MaskFacts | None
    q: OperandFacts | None
    k: OperandFacts | None
    v: OperandFacts | None
    output: Place | None
    problems: list[str]
    in_weights: bool = False
    """Whether the weights of the queries are taken to hold the scale, which `inspect` does not look at."""


class NormFacts(Facts, frozen=True):
    """One norm."""

    at: Place
    kind: str
    eps: float | None
    gain: str | None
    bias: str | None


class BlockFacts(Facts, frozen=True):
    """One residual sum."""

    at: Place
    kind: str
    source: str
    """stream is right; normed: what the norm gave; another; missing: there is no sum; unknown."""
    norm: NormFacts | None
    after: NormFacts | None
    attention: int | None
    """Which of `attentions`."""
    feed_forward: str | None
    matrices: list[str]


class LayerFacts(Facts, frozen=True):
    """One layer: its sums in order."""

    blocks: list[BlockFacts]


class MisfitFacts(Facts, frozen=True):
    """A node whose operands do not fit at sizes that the inputs allow."""

    at: Place
    message: str


class GraphFacts(Facts, frozen=True):
    """All that was read."""

    file: str
    producer: str
    opset: dict[str, int]
    nodes: int
    parameters: int
    inputs: list[Port]
    outputs: list[Port]
    caches: list[CacheFacts]
    attentions: list[AttentionFacts]
    layers: list[LayerFacts]
    final_norm: NormFacts | None
    vocabulary: Place | None
    vocabulary_weight: str | None
    tied: bool | None
    embedding: str | None
    positions: str | None
    position_offset: int | None
    sizes: dict[str, int | None]
    choices: dict[str, Any]
    variant: dict[str, Any] | str | None
    beyond: list[str]
    """What the document's variants have no word for."""
    misfits: list[MisfitFacts]
    random: list[Place]
    unread: dict[str, int]
    """Operators that were not read, and how many of each."""
    foreign: list[str]
    notes: list[str]
    tried: dict[str, int]
    """The sizes at which the graph was looked at."""
