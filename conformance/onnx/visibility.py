"""What a mask hides: read off its numbers, whatever operators made them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from conformance.onnx.operators import Array

BIASED = "scores get other numbers than a mask's"
"""What is added is no mask alone: biases by distance, for instance."""


@dataclass(frozen=True)
class Visibility:
    """Which key each query sees.

    Attributes:
        kind: causal, none, window, other, unknown.
        offset: of causal: query i sees key j when j <= i + past + offset; 0 is right.
        past_ignored: the triangle begins at the top left although there is a past.
        padding: whether the attention mask hides keys; None: no such input, or unknown.
        fill: what hidden scores get, None when nothing is hidden or it is unknown.
        fully_masked: what a row that sees nothing gives, where it can be told.
    """

    kind: str
    offset: int = 0
    past_ignored: bool = False
    padding: bool | None = None
    fill: float | None = None
    example: str = ""

    def plain(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "kind": self.kind,
            "offset": self.offset,
            "past_ignored": self.past_ignored,
            "padding": self.padding,
            "fill": self.fill,
            "example": self.example,
        }


UNKNOWN = Visibility("unknown")


def classify(added: Array) -> Visibility:
    """The visibility of what is added to scores of zero; axes batch, head, query, key.

    Anything below a thousandth of the lowest number counts as hidden: a fill is one number, and
    biases by distance are small beside it.
    """
    hidden, fill = _hidden(added)
    if fill < 0:
        faint = np.isfinite(fill) and fill > -1e3 and len(np.unique(added[hidden])) > 1
        if faint or len(np.unique(added[~hidden])) > 1:
            return Visibility("unknown", example=BIASED)
    elif fill == 0:
        if (added != 0).any():
            return Visibility("unknown", example=BIASED)
        return Visibility("none")
    return replace_fill(pattern(~hidden), fill)


def _hidden(added: Array) -> tuple[Array, float]:
    """Which scores a mask hides, and with which fill; 0 where it hides none."""
    if np.isneginf(added).any():
        return np.isneginf(added), -np.inf
    lowest = float(added[np.isfinite(added)].min(initial=0.0))
    return added <= lowest / 2 if lowest < 0 else np.zeros(added.shape, bool), lowest


PADDING = 2
"""How many tokens at the beginning of the first sequence are padding where that is tried."""


def pads(plain: Array, padded: Array) -> bool | None:
    """Whether padding hides its keys in the first sequence: from all queries behind it that see them without padding.

    Both are added to scores: batch, head, query, key. None where no query sees those keys, as behind a window.
    """
    shape = np.broadcast_shapes(plain.shape, padded.shape)
    queries, keys = shape[-2:]
    behind = np.arange(queries) + keys - queries >= PADDING
    before, after = (np.broadcast_to(a, shape)[0][:, behind, :PADDING] for a in (plain, padded))
    seen = ~np.broadcast_to(_hidden(plain)[0], shape)[0][:, behind, :PADDING]
    if not seen.any():
        return None
    return bool((after < before)[seen].all())


def replace_fill(seen: Visibility, fill: float) -> Visibility:
    """The same with a fill."""
    return Visibility(seen.kind, seen.offset, seen.past_ignored, seen.padding, fill, seen.example)


def pattern(visible: Array) -> Visibility:
    """The visibility of a boolean mask [batch, head, query, key]."""
    queries, keys = visible.shape[-2:]
    i, j = np.arange(queries)[:, None], np.arange(keys)[None, :]
    if visible.all():
        return Visibility("none")
    if not (visible == visible[:1, :1]).all():
        return Visibility("other", example="it differs by sequence or head")
    one = visible[0, 0]
    past = keys - queries
    for offset in (0, 1, -1, 2, -2):
        if (one == (j <= i + past + offset)).all():
            return Visibility("causal", offset)
    if past:
        for offset in (0, 1, -1):
            if (one == (j <= i + offset)).all():
                return Visibility("causal", offset, past_ignored=True)
        own = one[:, past:]
        if (own == (j[:, : keys - past] <= i)).all() and not one[:, :past].any():
            return Visibility("other", example="the past is hidden")
        if one[:, past:].all() and not one[:, :past].any():
            return Visibility("other", example="the past is hidden")
    if (one == (j >= i + past)).all():
        return Visibility(
            "other", example="the triangle is the other way round: each query sees itself and what follows"
        )
    if (one == (j > i + past)).all():
        return Visibility("other", example="it is inverted: each query sees only what follows it")
    if not one[j > i + past].any():
        return Visibility("window", example="causal, and some earlier keys are hidden as well")
    return Visibility("other", example=f"query 0 sees {int(one[0].sum())} of {keys} keys")
