"""The transforms that a map may apply to canonical parameters (all `x @ W`: [in, out], heads along out).

Each takes tensors whose last axis is the output, so that the same one serves a weight [in, out] and
a bias [out].
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch

from .expressions import computed

Transform = Callable[..., Any]


def transpose(config: Mapping[str, Any], weight: Any) -> Any:
    """[in, out] → [out, in], as `torch.nn.Linear` keeps it."""
    return weight.transpose(-2, -1)


def concat(config: Mapping[str, Any], *parts: Any) -> Any:
    """Side by side along the output: one fused projection."""
    return torch.cat(parts, -1)


def stack(config: Mapping[str, Any], *parts: Any) -> Any:
    """On a new first axis: all layers, or q, k and v, in one tensor."""
    return torch.stack(parts)


def by_head(config: Mapping[str, Any], *parts: Any) -> Any:
    """Fused head by head: (q₀ k₀ v₀)(q₁ k₁ v₁)…, each head as wide as the parts have it."""
    heads = config["n_heads"]
    return torch.cat([part.unflatten(-1, (heads, -1)) for part in parts], -1).flatten(-2)


def by_group(config: Mapping[str, Any], *parts: Any) -> Any:
    """Fused by key-value head: all queries that read it, then its k, then its v."""
    groups = config["n_kv_heads"]
    return torch.cat([part.unflatten(-1, (groups, -1)) for part in parts], -1).flatten(-2)


def half_to_interleaved(config: Mapping[str, Any], weight: Any) -> Any:
    """Features i and i + n/2 of a head become 2i and 2i + 1: for a module that rotates neighbours.

    n is the rotated part of the head; the rest stays where it is.
    """
    return _regrouped(config, weight, lambda part: part.unflatten(-1, (2, -1)).transpose(-2, -1).flatten(-2))


def interleaved_to_half(config: Mapping[str, Any], weight: Any) -> Any:
    """The other way round."""
    return _regrouped(config, weight, lambda part: part.unflatten(-1, (-1, 2)).transpose(-2, -1).flatten(-2))


def _regrouped(config: Mapping[str, Any], weight: Any, regroup: Callable[[Any], Any]) -> Any:
    width = config["d_head"]
    rotated = int(width * config.get("rotary_fraction", 1.0))
    heads = weight.unflatten(-1, (-1, width))
    return torch.cat([regroup(heads[..., :rotated]), heads[..., rotated:]], -1).flatten(-2)


def arrange(config: Mapping[str, Any], weight: Any, pattern: str) -> Any:
    """Axes split, ordered and merged: `arrange(w_q, 'model (n_heads width) -> n_heads model width')`.

    Axes are words; one that is a field of the config has that size, others what is left.
    """
    left, _, right = pattern.partition("->")
    groups = _groups(left)
    if len(groups) != weight.dim():
        raise ValueError(f"'{left.strip()}' has {len(groups)} axes, the parameter {weight.dim()}")
    sizes: list[int] = []
    for group, size in zip(groups, weight.shape, strict=True):
        known = [int(config.get(axis, -1)) for axis in group]
        rest = size // max(1, math.prod(n for n in known if n > 0))
        sizes += [n if n > 0 else rest for n in known]
    axes = [axis for group in groups for axis in group]
    order = _groups(right)
    flat = [axis for group in order for axis in group]
    if sorted(flat) != sorted(axes):
        raise ValueError(f"'{pattern}' does not have the same axes on both sides")
    whole = weight.reshape(sizes).permute([axes.index(axis) for axis in flat])
    merged = [math.prod(sizes[axes.index(axis)] for axis in group) for group in order]
    return whole.reshape(merged)


def _groups(text: str) -> list[list[str]]:
    groups: list[list[str]] = []
    inside = False
    for word in text.replace("(", " ( ").replace(")", " ) ").split():
        if word == "(":
            groups.append([])
            inside = True
        elif word == ")":
            inside = False
        elif inside:
            groups[-1].append(word)
        else:
            groups.append([word])
    return groups


def minus_one(config: Mapping[str, Any], weight: Any) -> Any:
    """A gain that is stored as what it exceeds 1 by."""
    return weight - 1


def negative(config: Mapping[str, Any], weight: Any) -> Any:
    """With the other sign."""
    return -weight


def times(config: Mapping[str, Any], weight: Any, factor: float | str) -> Any:
    """Multiplied by a number, or by an expression in quotes: `times(w_q, 'd_head ** -0.5')`.

    For a module that has a factor folded into its weights.
    """
    return weight * (computed(factor, config) if isinstance(factor, str) else factor)


TRANSFORMS: dict[str, Transform] = {
    function.__name__: function
    for function in (
        transpose,
        concat,
        stack,
        by_head,
        by_group,
        half_to_interleaved,
        interleaved_to_half,
        arrange,
        minus_one,
        negative,
        times,
    )
}
FILLS: dict[str, Callable[[Any], Any]] = {
    "zeros": torch.zeros_like,
    "ones": torch.ones_like,
    "keep": lambda parameter: parameter,
}
"""What fills a parameter that no canonical one corresponds to; `keep` leaves the module's own value."""
